// What the plans of all ranks share while they are emitted: programs, constants and provenance of the bundle, interned
// by content.
//
// Ranks are emitted side by side, so the tables are guarded; indices depend on who asks first and are renumbered by
// `finish` in an order that does not (programs by name, provenance by first use in rank order).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compiler/emit/connections.h"
#include "compiler/emit/emit_bundle.h"

namespace piper::emit {

class EmitShared {
 public:
  explicit EmitShared(const EmitRequest& request);

  const EmitRequest& request;
  std::vector<bool> unread;          // [parameter] no program reads it: rank 0 keeps it all the same
  std::vector<int32_t> owner;        // [parameter] the rank that writes it into saved weights
  std::vector<int32_t> state_owner;  // [buffer] the same: of the copies that devices keep, the first one's
  std::vector<std::vector<ir::NodeId>> nodes_of_rank;  // [rank] what involves it, in the order of the DAG
  Connections connections;

  // A parameter's first use on a rank, invalid where none.
  ir::AccumulatorId primary(uint32_t p, int32_t rank) const;
  // Whether the rank, which uses the parameter, is the one that counts and saves the gradient that it holds.
  bool owns(uint32_t p, int32_t rank) const;

  int32_t intern_program(plan::Program program);  // by name; equal names have equal contents
  const plan::Program& program(int32_t index) const;
  // The program that a microbatch of the chunk runs, or nullptr. For what is done once per step any microbatch will do.
  const LoweredProgram* find(size_t variant, ir::ChunkId chunk, ir::Phase phase, int32_t microbatch) const;
  int32_t program_index(size_t variant, ir::ChunkId chunk, ir::Phase phase, int32_t microbatch);
  const Exchange& find_exchange(size_t variant, ir::ChunkId chunk, ir::Phase phase) const;
  // The name of a constant in the constants file; equal contents share one.
  const std::string& constant_name(size_t variant, uint32_t constant);
  size_t variant_of_group(ir::GroupId group) const;
  int32_t provenance(ir::ProvId id) const { return id.valid() ? provenance_of_[id.index] : -1; }
  // Moves programs, provenance and constants that ranks use into `out`, whose rank plans are complete, and renumbers
  // these.
  void finish(Emitted& out);

 private:
  // What a chunk does in a phase, in one variant of the model.
  struct Work {
    struct Program {
      const LoweredProgram* lowered = nullptr;
      std::atomic<int32_t> index{-1};  // once a rank has asked for it
    };
    Program program, repeating;  // the second where some microbatches repeat their forward: what these run
    const Exchange* exchange = nullptr;
  };
  Work& work(size_t variant, ir::ChunkId chunk, ir::Phase phase) {
    return work_[(variant * request.module->chunks().size() + chunk.index) * ir::kNumPhases +
                 static_cast<size_t>(phase)];
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
