// Memory of the host, a stream of the stand-in: kernels run under the shim.
#include <cstring>

#include "runtime/hal/cuda/cuda_handles.h"
#include "tests/shim/blocks.h"
#include "tests/shim/device_side.h"
#include "tests/shim/host_operators.h"

namespace piper::kernels::testing {

namespace {

class HostSide : public DeviceSide {
 public:
  // Its own allocation, so that AddressSanitizer sees an access behind it.
  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    return {new (std::align_val_t(kLine)) std::byte[bytes](), Delete()};
  }
  void write(std::byte* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  hal::Queue& queue() override { return cuda_queue(); }
  Result<std::unique_ptr<Library>> make_kernels(cuda::DeviceMemory memory) override {
    PIPER_ASSIGN(auto kernels, cuda::CudaLibrary::make(std::move(memory), shim::host_operators()));
    return std::unique_ptr<Library>(std::move(kernels));
  }
  std::string finish() override {
    if (cudaStreamSynchronize(cuda_queue().stream()) != cudaSuccess) return "the stream failed";
    return shim::take_failure();
  }

 private:
  static constexpr size_t kLine = 64;
  struct Delete {
    void operator()(std::byte* data) const { operator delete[](data, std::align_val_t(kLine)); }
  };
  hal::CudaQueue& cuda_queue() {
    if (queue_ == nullptr) queue_ = hal::CudaQueue::make(plan::Priority::kNormal).value();
    return *queue_;
  }
  std::unique_ptr<hal::CudaQueue> queue_;
};

}  // namespace

DeviceSide& device_side() {
  static HostSide side;
  return side;
}

}  // namespace piper::kernels::testing
