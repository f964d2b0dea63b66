// Launches that write elements as they are, as another type, or onto what is there.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// Elements of one shape on the device.
struct StridedElements {
  void* data = nullptr;
  DType type = DType::kF32;
  Layout layout;
};

enum class CopyMode : int32_t {
  kCopy,  // to = from, in to's type
  kAdd,   // to += from; both of one type, or both floating
};
void launch_copy(const StridedElements& to, const StridedElements& from, int64_t count, CopyMode mode,
                 cudaStream_t stream);
// to = value.
void launch_fill(const StridedElements& to, int64_t count, double value, cudaStream_t stream);

}  // namespace piper::kernels::cuda
