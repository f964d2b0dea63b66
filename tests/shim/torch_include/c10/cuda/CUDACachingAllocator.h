// A stand-in for the part of LibTorch's allocator for CUDA that piper uses (tests/shim/torch_cuda_standin.cc). Names
// and signatures are those of version 2.11.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <cuda_runtime_api.h>

#include <functional>

namespace c10::cuda::CUDACachingAllocator {

// Until the end, what is asked for where `filter` says so is the pool's.
void beginAllocateToPool(DeviceIndex device, MempoolId_t mempool_id, std::function<bool(cudaStream_t)> filter);
void endAllocateToPool(DeviceIndex device, MempoolId_t mempool_id);
// What the pool caches may go back to the device from now on.
void releasePool(DeviceIndex device, MempoolId_t mempool_id);

}  // namespace c10::cuda::CUDACachingAllocator
