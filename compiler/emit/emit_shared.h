// What the plans of all roles share while they are emitted: programs, constants and provenance of the bundle, interned
// by content.
//
// Roles are emitted side by side, so the tables are guarded; indices depend on who asks first and are renumbered by
// `finish` in an order that does not (programs by name, provenance by first use in the order of roles).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compiler/emit/buffers.h"
#include "compiler/emit/connections.h"
#include "compiler/emit/emit_bundle.h"
#include "schemas/plan/optimizers.h"

namespace piper::emit {

struct RolePlan;

class EmitShared {
 public:
  explicit EmitShared(const EmitRequest& request);

  const EmitRequest& request;
  const ir::Module& module;
  const Connections connections;
  // Norms of the optimizer's groups, where gradients are clipped by one of all.
  bool reports_norms() const { return module.training.clips() && module.training.optimizer.groups.size() > 1; }
  const Buffers buffers;
  // What updates a bucket; numbers of its groups aside. The moments that it keeps of each element are 0 to 2.
  plan::GroupUpdate update_of(const ir::Bucket& bucket) const;
  const std::vector<ir::StepSum> sums;  // rows of step_sums

  int32_t intern_program(plan::Program program);  // by name; equal names have equal contents
  const plan::Program& program(int32_t index) const;
  // The program that a microbatch of the chunk runs, or nullptr. For what is done once per step any microbatch will do.
  const ir::LoweredProgram* find(size_t variant, ir::ChunkId chunk, ir::Phase phase, int32_t microbatch) const;
  int32_t program_index(size_t variant, ir::ChunkId chunk, ir::Phase phase, int32_t microbatch);
  const ir::Exchange& find_exchange(size_t variant, ir::ChunkId chunk, ir::Phase phase) const;
  // The number of a constant's content, which several constants may share; and the content's name in the constants
  // file, which holds the contents that were asked for.
  uint32_t constant_number(size_t variant, uint32_t constant) const { return constant_of_[variant][constant]; }
  const std::string& use_constant(uint32_t number);
  // The scalar that a mean loss's count is; the factor on gradients; the number of gradients that overflow.
  ir::ScalarId count_of(ir::ValueId step_sum) const;
  ir::ScalarId gradient_scale() const { return scalar_read_by(ir::ScalarReader::kUpdates); }
  ir::ScalarId overflow() const { return scalar_read_by(ir::ScalarReader::kSkips); }
  ir::ScalarId scalar_read_by(ir::ScalarReader reader) const;
  size_t variant_of_group(ir::GroupId group) const;
  // Index into the manifest's cuts: over which the group's replicas have parts; -1: none.
  int32_t cut_of(ir::GroupId group) const { return module.distribution.cut_of(group); }
  // Whether an exchange of rows that are counted sends the padding, too: where the host would have to read the counts,
  // and a bound keeps the parts small.
  bool sends_whole_parts(ir::ChunkId exchange) const;
  // A stream of a plan, with the resources of a stream of the distribution.
  plan::Stream stream(std::string name, uint32_t of) const;
  int32_t provenance(ir::ProvId id) const { return id.valid() ? provenance_of_[id.index] : -1; }
  // Moves programs, provenance and constants that roles use into `out`, and renumbers these in the roles' plans.
  void finish(Emitted& out, std::vector<RolePlan>& roles);

 private:
  // What a chunk does in a phase, in one variant of the model.
  struct Work {
    struct Program {
      const ir::LoweredProgram* lowered = nullptr;
      std::atomic<int32_t> index{-1};  // once a role has asked for it
    };
    Program program, repeating;  // the second where some microbatches repeat their forward: what these run
    const ir::Exchange* exchange = nullptr;
  };
  Work& work(size_t variant, ir::ChunkId chunk, ir::Phase phase) {
    return work_[(variant * module.chunks().size() + chunk.index) * ir::kNumPhases + static_cast<size_t>(phase)];
  }
  const Work& work(size_t variant, ir::ChunkId chunk, ir::Phase phase) const {
    return const_cast<EmitShared*>(this)->work(variant, chunk, phase);
  }
  int32_t intern_provenance(ir::ProvId id);

  mutable std::mutex mutex_;
  std::deque<plan::Program> programs_;  // references stay good
  std::map<std::string, int32_t> program_names_;
  std::vector<Work> work_;          // [variant][chunk][phase]
  std::vector<size_t> variant_of_;  // [group], kNoVariant where only collectives use it
  std::vector<plan::ProvenanceEntry> provenance_;
  std::vector<int32_t> provenance_of_;  // [ProvId], -1 where no node has it
  struct NamedConstant {
    std::string name;
    plan::WeightTensor tensor;
    bool used = false;
  };
  std::vector<NamedConstant> constants_;            // one per content
  std::vector<std::vector<uint32_t>> constant_of_;  // [variant][constant] -> index into constants_
  std::map<std::string, int32_t> provenance_keys_;
};

// A tensor for the weights files.
plan::WeightTensor weight_tensor(const std::string& name, const ir::TensorType& type, const ir::WeightSource& source);

}  // namespace piper::emit
