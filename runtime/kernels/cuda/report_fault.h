// How a kernel writes the record of faults. For .cu files.
#pragma once

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/fault.h"

namespace piper::kernels::cuda {

// Called by the thread that found it; what follows must not use the data.
__device__ inline void report(const FaultPlace& place, FaultKind kind, int64_t a, int64_t b, int64_t c = 0,
                              int64_t d = 0, int64_t e = 0) {
  if (atomicCAS(&place.record->call, 0u, place.call) != 0u) return;
  place.record->kind = kind;
  const int64_t numbers[5] = {a, b, c, d, e};
  for (int i = 0; i < 5; ++i) place.record->numbers[i] = numbers[i];
}

}  // namespace piper::kernels::cuda
