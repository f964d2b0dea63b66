// Which rows of a table, or which classes, a call has at its place of a cut: read on the device, by the operand
// `place`.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {

struct PlaceOfPart {
  const int64_t* place = nullptr;  // of the device; nullptr: all is here
  int64_t extent = 0, whole = 0;   // what the operand has along the axis that is cut; what all places have together

  __device__ int64_t first() const { return place == nullptr ? 0 : place[0] * extent; }
  // For the operand's: past them it has some that are none.
  __device__ int64_t count() const {
    const int64_t left = whole - first();
    return left < 0 ? 0 : left < extent ? left : extent;
  }
};

}  // namespace piper::kernels::cuda
