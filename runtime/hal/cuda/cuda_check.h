// CUDA's errors as piper's.
#pragma once

#include <cuda_runtime_api.h>

#include "schemas/base/status.h"

namespace piper::hal {

// R0407, with the call and CUDA's own words.
Status cuda_status(cudaError_t error, const char* call);

#define PIPER_CUDA(call) PIPER_RETURN_IF_ERROR(::piper::hal::cuda_status(call, #call))

}  // namespace piper::hal
