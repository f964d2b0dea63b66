// Memory of LibTorch's allocator that is one rank's: what its kernels took while a graph was captured is not given back
// to the device, which the graph's launches would not notice, before the rank ends. Without a pool the allocator gives
// back all that it caches when any request fails.
#pragma once

#include <cstdint>

namespace piper::kernels::cuda {

class ScratchPool {
 public:
  // On a GPU, by its index.
  explicit ScratchPool(int device);
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // While it lives, what the thread takes comes from the pool.
  class Use {
   public:
    explicit Use(const ScratchPool& pool);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const ScratchPool* before_;
  };

 private:
  int device_;
  uint64_t id_;
};

}  // namespace piper::kernels::cuda
