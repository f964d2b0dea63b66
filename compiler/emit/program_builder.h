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
  // Adds a scalar to the step's sum of that kind: kLoss or kDropped.
  void add_to_step(SlotHolds::Kind kind, ir::ValueId addend);
  void clear_counts();
  LoweredProgram finish() { return std::move(out_); }

 private:
  plan::Operand absent() const { return {}; }
  plan::Operand operand_in_slot(int32_t slot, ir::ValueId v, int64_t base) const;
  plan::Operand read(ir::ValueId v);
  plan::Operand write(ir::ValueId root);
  plan::Operand whole_slot(int32_t slot, DType dtype, const std::vector<int64_t>& shape) const;
  int32_t slot_of_leaf(ir::ValueId root);
  int32_t saved_slot(ir::ValueId root, bool reads, bool writes);
  int32_t slot(SlotHolds holds, std::string name, plan::SlotRole role, int64_t bytes, bool reads, bool writes);
  int32_t gradient_slot(uint32_t parameter);
  void emit(plan::KernelCall call) { out_.program.calls.push_back(std::move(call)); }
  std::string origin(const ir::Op& op) const;

  const Lowering& l_;
  ProgramKey key_;
  LoweredProgram out_;
  std::map<std::tuple<SlotHolds::Kind, uint32_t>, int32_t> slot_index_;
};

}  // namespace piper::emit
