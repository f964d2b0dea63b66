// Builds the calls of one (chunk, phase). Internal to compiler/emit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/emit/lowering.h"

namespace piper::emit {

class ProgramBuilder {
 public:
  ProgramBuilder(const Lowering& lowering, ProgramKey key) : l_(lowering), key_(key) {
    out_.chunk = ir::ChunkId(key.first);
    out_.phase = key.second;
  }

  void add_op(size_t index);
  // Adds a scalar to a sum of the step, a row of step_sums.
  void add_to_step(uint32_t row, ir::ValueId addend);
  void clear_counts();
  // Plans the workspace, once all ops are added.
  ir::LoweredProgram finish();
  // Instead: gives each value that a call makes a slot of its own.
  ir::LoweredProgram finish_values();
  size_t num_calls() const { return out_.program.calls.size(); }

 private:
  plan::Operand operand_in_slot(int32_t slot, ir::ValueId v, int64_t base) const;
  plan::Operand read(ir::ValueId v);
  plan::Operand write(ir::ValueId root);
  static plan::Operand whole_slot(int32_t slot, const ir::TensorType& type);
  int32_t slot_of_leaf(ir::ValueId root);
  int32_t saved_slot(ir::ValueId root, bool reads, bool writes);
  int32_t slot(ir::SlotHolds holds, std::string name, plan::SlotRole role, int64_t bytes, bool reads, bool writes);
  void say_what(const ir::SlotHolds& holds, plan::Slot& slot) const;
  int32_t gradient_slot(uint32_t parameter);
  // Adds the call whose operands were read and written since the last one.
  void emit(plan::KernelCall call);
  static void select_part(plan::KernelCall& call);
  void add_into(plan::Operand from, plan::Operand sum, std::string origin);
  std::string origin(const ir::Op& op) const;

  const Lowering& l_;
  ProgramKey key_;
  ir::LoweredProgram out_;
  std::map<std::tuple<ir::SlotHolds::Kind, uint32_t>, int32_t> slot_index_;
  std::vector<uint32_t> written_, read_;      // roots in the workspace that the call being made writes, reads
  std::vector<std::vector<uint32_t>> roots_;  // [call] the same: what it writes, then what it reads
};

}  // namespace piper::emit
