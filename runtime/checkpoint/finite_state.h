// Whether the state of a training is worth saving: what steps update has no NaN and no infinity, except in tensors that
// the run began with so. A model may mean those, such as the infinities of a mask, as it may in frozen tensors and
// buffers, which are not looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "runtime/checkpoint/weights.h"
#include "schemas/checkpoint/open_checkpoint.h"
#include "schemas/plan/plan.h"

namespace piper::checkpoint {

class FiniteState {
 public:
  // The run begins with `weights`, or continues from `resume`; nullptr: there are none. All outlive this.
  FiniteState(const plan::Manifest& manifest, const WeightSource* weights, const OpenCheckpoint* resume);
  // Whether steps update it: a trained parameter, or a moment.
  bool covers(StateKind kind, const std::string& name) const;
  // What is wrong with `count` of its elements, on the host: "the first moment of 'w' has a NaN"; "": nothing. One
  // thread at a time.
  std::string fault(StateKind kind, const std::string& name, DType dtype, const std::byte* elements, int64_t count);
  // After the first state that is saved: where the run began is not read again, since its checkpoint may be removed.
  void saved() { saved_ = true; }

 private:
  bool began_so(StateKind kind, const std::string& name) const;

  std::map<std::string, const plan::TensorInfo*> trained_;
  const WeightSource* weights_;
  const OpenCheckpoint* resume_;
  std::set<std::pair<StateKind, std::string>> meant_;
  bool saved_ = false;
};

}  // namespace piper::checkpoint
