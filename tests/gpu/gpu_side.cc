// Memory and a stream of the first GPU.
#include <cstdio>
#include <cstdlib>

#include "runtime/kernels/cuda/device_kernels.h"
#include "tests/shim/stream_side.h"

namespace piper::kernels::testing {

namespace {

// Before the first case: without a GPU there is none.
const bool found = [] {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return true;
  std::printf("skipped: no CUDA device was found: %s\n", cudaGetErrorString(error));
  std::fflush(stdout);
  std::_Exit(0);
}();

void want(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class GpuSide : public StreamSide {
 public:
  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    void* data = nullptr;
    want(cudaMalloc(&data, bytes > 0 ? bytes : 1));
    want(cudaMemset(data, 0, bytes));
    want(cudaDeviceSynchronize());
    return {static_cast<std::byte*>(data), [](std::byte* place) { (void)cudaFree(place); }};
  }
  void write(std::byte* to, const void* from, size_t bytes) override {
    want(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    want(cudaStreamSynchronize(nullptr));  // of pageable memory it may return before the bytes are there
  }
  void read(void* to, const std::byte* from, size_t bytes) override {
    want(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  }
  Result<std::unique_ptr<Library>> make_kernels(cuda::DeviceMemory memory) override {
    return cuda::make_kernels(std::move(memory));
  }
};

}  // namespace

DeviceSide& device_side() {
  static GpuSide side;
  return side;
}

}  // namespace piper::kernels::testing
