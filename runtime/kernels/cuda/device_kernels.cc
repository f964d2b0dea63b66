#include "runtime/kernels/cuda/device_kernels.h"

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/cuda/cuda_library.h"
#include "runtime/kernels/cuda/cuda_operators.h"
#include "runtime/kernels/cuda/flash_attention.h"
#include "runtime/kernels/cuda/group_commands.h"
#include "runtime/kernels/library/library_rows.h"

namespace piper::kernels::cuda {
namespace {

// The flash kernels want compute capability 8.0.
bool has_flash_kernels() {
  int ordinal = 0, major = 0;
  return cudaGetDevice(&ordinal) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal) == cudaSuccess && major >= 8;
}

// Own kernels and operators; LibTorch's flash attention in front of the own one.
class DeviceKernels : public Library {
 public:
  DeviceKernels(std::unique_ptr<const OperatorDevice> operators, std::unique_ptr<CudaLibrary> library)
      : operators_(std::move(operators)), library_(std::move(library)), flash_(has_flash_kernels()) {}
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override {
    if (flash_ && serves_flash_attention(call, outputs, inputs))
      return bind_flash_attention(call, outputs, inputs, *operators_);
    return library_->bind(call, outputs, inputs, numbers);
  }
  FaultRecord fault_record() const override { return library_->fault_record(); }
  Status read_fault(const std::byte* record) const override { return library_->read_fault(record); }
  bool wants_rehearsal() const override { return true; }
  void measure_scratch(bool measure) const override { operators_->measure_scratch(measure); }
  int64_t memory_bytes() const override { return library_->memory_bytes(); }

 private:
  std::unique_ptr<const OperatorDevice> operators_;
  std::unique_ptr<CudaLibrary> library_;
  bool flash_;
};

}  // namespace

Result<std::unique_ptr<Library>> make_kernels(DeviceMemory memory) {
  PIPER_ASSIGN(auto operators, open_cuda_operators());
  PIPER_ASSIGN(auto library, CudaLibrary::make(std::move(memory), std::make_unique<LibraryRows>(*operators)));
  return std::unique_ptr<Library>(std::make_unique<DeviceKernels>(std::move(operators), std::move(library)));
}

Result<std::shared_ptr<const Library>> open_kernels(hal::Device& device) {
  using Regions = std::vector<std::unique_ptr<hal::MemoryRegion>>;
  const auto regions = std::make_shared<Regions>();
  PIPER_ASSIGN(auto kernels, make_kernels({[&device, regions](int64_t bytes) -> Result<hal::Address> {
                 PIPER_ASSIGN(auto region, device.allocate(bytes));
                 regions->push_back(std::move(region));
                 return regions->back()->base();
               }}));
  return std::shared_ptr<const Library>(std::move(kernels));
}

hal::GroupKernels group_kernels() { return {&make_piece_sum, &make_conversion}; }

}  // namespace piper::kernels::cuda
