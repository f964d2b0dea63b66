// What of a rank's memory is the state of training: the values of parameters, moments, running statistics, and what
// training counts. Read off the plan's placements and its buffers of class `training`. The runtime saves and loads it;
// piperc and piper-plan tell how large the copy of it is that a run with checkpoints keeps.
#pragma once

#include <string>
#include <vector>

#include "schemas/checkpoint/manifest.h"
#include "schemas/plan/element_order.h"
#include "schemas/plan/plan.h"
#include "schemas/plan/safetensors.h"

namespace piper::checkpoint {

// Elements [first, first + count) of a global tensor, as the plan counts them and this rank has them.
struct StatePart {
  StateKind kind = StateKind::kParameter;
  std::string name;
  DType dtype = DType::kF32;   // of the elements here
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t first = 0, count = 0;
  bool owner = false;  // this rank's elements are saved
  bool copy = false;   // of another part in another type: loaded, never saved
  plan::BufferRange where;
  plan::PartsAlong along = {};  // in which the tensor is counted
};
// In the order of the plan; gradients and constants are no state.
std::vector<StatePart> state_parts(const plan::Manifest& manifest, const plan::RankPlan& plan);

// Elements [begin, end) of a tensor as a shard holds them, whose parts do not matter here: "param/NAME" in the tensor's
// shape where they are all of it, else "param/NAME[begin:end]", flat. Of a tensor that is counted in parts always flat,
// as "param/NAME[begin:end in 4 parts along axis 1]".
plan::TensorToWrite shard_entry(const StoredTensor& tensor, int64_t begin, int64_t end);

// Bytes of host memory in which a rank copies what it saves, with the header of its shard. Of buffers of class
// `training`, which every rank has and the lowest one saves, each rank counts its own: elsewhere this is a few hundred
// bytes more than what the run takes, and never less.
int64_t snapshot_bytes(const plan::Manifest& manifest, const plan::RankPlan& plan);

}  // namespace piper::checkpoint
