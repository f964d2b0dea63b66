#include "runtime/kernels/cuda/device_kernels.h"

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/cuda/cuda_library.h"
#include "runtime/kernels/cuda/cuda_operators.h"
#include "runtime/kernels/cuda/group_commands.h"
#include "runtime/kernels/cuda/library_attention.h"
#include "runtime/kernels/library/library_rows.h"

namespace piper::kernels::cuda {
namespace {

// For the current GPU. One that cannot be asked gets our own kernels.
AttentionTraits traits_of_device(AttentionRow first) {
  AttentionTraits traits;
  traits.first = first;
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess ||
      cudaDeviceGetAttribute(&traits.major, cudaDevAttrComputeCapabilityMajor, ordinal) != cudaSuccess ||
      cudaDeviceGetAttribute(&traits.minor, cudaDevAttrComputeCapabilityMinor, ordinal) != cudaSuccess)
    traits.first = AttentionRow::kOwn;
  return traits;
}

// Own kernels and operators; LibTorch's attention before the own one.
class DeviceKernels : public Library {
 public:
  DeviceKernels(std::unique_ptr<const OperatorDevice> operators, std::unique_ptr<CudaLibrary> library,
                AttentionTraits traits)
      : operators_(std::move(operators)), library_(std::move(library)), attention_(traits) {}
  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override {
    if (is_attention(call))
      if (const AttentionRow row = attention_row(call, inputs, attention_); row != AttentionRow::kOwn)
        return bind_library_attention(row, call, outputs, inputs, *operators_);
    return library_->bind(call, outputs, inputs, numbers);
  }
  FaultRecord fault_record() const override { return library_->fault_record(); }
  Status read_fault(const std::byte* record) const override { return library_->read_fault(record); }
  bool wants_rehearsal() const override { return true; }
  void measure_scratch(bool measure) const override { operators_->measure_scratch(measure); }
  std::vector<ScratchBeyondPlan> scratch_beyond_plan() const override { return operators_->scratch_beyond_plan(); }
  int64_t memory_bytes() const override { return library_->memory_bytes(); }

 private:
  std::unique_ptr<const OperatorDevice> operators_;
  std::unique_ptr<CudaLibrary> library_;
  AttentionTraits attention_;
};

}  // namespace

Result<std::unique_ptr<Library>> make_kernels(DeviceMemory memory) {
  PIPER_ASSIGN(const AttentionRow first, first_attention_row());
  PIPER_ASSIGN(auto operators, open_cuda_operators());
  PIPER_ASSIGN(auto library, CudaLibrary::make(std::move(memory), std::make_unique<LibraryRows>(*operators)));
  return std::unique_ptr<Library>(
      std::make_unique<DeviceKernels>(std::move(operators), std::move(library), traits_of_device(first)));
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
