// Memory of the host, a stream of the stand-in: kernels run under the shim.
#include <cstring>

#include "tests/shim/blocks.h"
#include "tests/shim/host_operators.h"
#include "tests/shim/stream_side.h"

namespace piper::kernels::testing {

namespace {

class HostSide : public StreamSide {
 public:
  // Its own allocation, so that AddressSanitizer sees an access past it.
  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    return {new (std::align_val_t(kLine)) std::byte[bytes](), Delete()};
  }
  void write(std::byte* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  Result<std::unique_ptr<Library>> make_kernels(cuda::DeviceMemory memory) override {
    PIPER_ASSIGN(auto kernels, cuda::CudaLibrary::make(std::move(memory), shim::host_operators()));
    return std::unique_ptr<Library>(std::move(kernels));
  }

 private:
  static constexpr size_t kLine = 64;
  struct Delete {
    void operator()(std::byte* data) const { operator delete[](data, std::align_val_t(kLine)); }
  };
  std::string failure_of_kernels() override { return shim::take_failure(); }
};

}  // namespace

DeviceSide& device_side() {
  static HostSide side;
  return side;
}

}  // namespace piper::kernels::testing
