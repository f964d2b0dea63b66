#include "runtime/kernels/cuda/scratch_pool.h"

#include <atomic>

// A LibTorch for CPUs has no such header, and no operator that would take memory.
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
#include <c10/cuda/CUDACachingAllocator.h>
#define PIPER_HAVE_POOLS
#endif

namespace piper::kernels::cuda {

namespace {

thread_local const ScratchPool* in_use = nullptr;

#ifdef PIPER_HAVE_POOLS
namespace allocator = c10::cuda::CUDACachingAllocator;

c10::MempoolId_t pool_of(uint64_t id) { return {0, id}; }
c10::DeviceIndex index_of(int device) { return static_cast<c10::DeviceIndex>(device); }
#endif

}  // namespace

ScratchPool::Use::Use(const ScratchPool& pool) : before_(in_use) { in_use = &pool; }
ScratchPool::Use::~Use() { in_use = before_; }

#ifdef PIPER_HAVE_POOLS
ScratchPool::ScratchPool(int device) : device_(device) {
  static std::atomic<uint64_t> pools{0};
  id_ = ++pools;
  allocator::beginAllocateToPool(index_of(device), pool_of(id_), [this](cudaStream_t) { return in_use == this; });
}
ScratchPool::~ScratchPool() {
  allocator::endAllocateToPool(index_of(device_), pool_of(id_));
  allocator::releasePool(index_of(device_), pool_of(id_));
}
#else
ScratchPool::ScratchPool(int device) : device_(device), id_(0) {}
ScratchPool::~ScratchPool() = default;
#endif

}  // namespace piper::kernels::cuda
