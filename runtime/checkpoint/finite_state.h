// Whether the state of a training is worth saving. With a NaN or an infinity in what steps update, no later step gives
// a number. Frozen tensors and buffers are not looked at: a model may mean the infinities of its masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "schemas/checkpoint/manifest.h"
#include "schemas/plan/plan.h"

namespace piper::checkpoint {

class FiniteState {
 public:
  explicit FiniteState(const plan::Manifest& manifest);
  // Whether steps update it: a trained parameter, or a moment.
  bool covers(StateKind kind, const std::string& name) const;

 private:
  std::set<std::string> trained_;
};

// What is wrong with `count` elements on the host, such as "the first moment of 'w' has a NaN"; "" where nothing is.
std::string not_finite(StateKind kind, const std::string& name, DType dtype, const std::byte* elements, int64_t count);

}  // namespace piper::checkpoint
