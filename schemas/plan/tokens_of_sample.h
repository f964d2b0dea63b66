// What a sample counts as in "tokens a second".
#pragma once

#include <cstdint>

#include "schemas/plan/plan.h"

namespace piper::plan {

// Elements of a sample of the first whole-number input that has an axis: what a language model reads. 0: there is none.
inline int64_t tokens_of_sample(const Manifest& manifest) {
  for (const InputDecl& input : manifest.inputs) {
    if (input.dtype != DType::kI64 || !input.batched || input.sample_shape.empty()) continue;
    int64_t tokens = 1;
    for (const int64_t extent : input.sample_shape) tokens *= extent;
    return tokens;
  }
  return 0;
}

}  // namespace piper::plan
