// The stream of a queue of a CUDA device, for who launches kernels on it.
#pragma once

#include "runtime/hal/command.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::hal {

// `queue`: a CudaQueue.
cudaStream_t stream_of(Queue& queue);

}  // namespace piper::hal
