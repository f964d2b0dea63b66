// Host memory in which a rank holds the samples of its next steps: piper-run reads them while a step computes, and the
// predicted peak of ranks on CPUs counts them.
#pragma once

#include <algorithm>

#include "schemas/plan/plan.h"

namespace piper::plan {

// Steps whose samples may be in memory before they are used.
inline constexpr int64_t kStepsReadAhead = 2;

// For `samples` samples of one input, in its own type.
inline int64_t sample_bytes(const InputDecl& input, int64_t samples) {
  int64_t bytes = dtype_bytes(input.dtype) * (input.batched ? samples : 1);
  for (const int64_t extent : input.sample_shape) bytes *= extent;
  return bytes;
}

// For all steps read ahead. Inputs that the manifest does not have count nothing.
inline int64_t read_ahead_bytes(const Manifest& manifest, const RankPlan& rank) {
  int64_t step = 0;
  for (const InputSlice& slice : rank.inputs) {
    const auto declared = std::find_if(manifest.inputs.begin(), manifest.inputs.end(),
                                       [&slice](const InputDecl& input) { return input.name == slice.input; });
    if (declared != manifest.inputs.end()) step += sample_bytes(*declared, slice.count);
  }
  return kStepsReadAhead * step;
}

}  // namespace piper::plan
