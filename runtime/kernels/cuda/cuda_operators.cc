#include "runtime/kernels/cuda/cuda_operators.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <mutex>

#include "runtime/hal/cuda/cuda_stream.h"
#include "runtime/kernels/binding.h"

namespace piper::kernels::cuda {
namespace {

// Of LibTorch's caching allocator.
class AllocatorMeter : public ScratchMeter {
 public:
  explicit AllocatorMeter(at::Device device)
      : device_(device.index()), allocator_(*c10::getDeviceAllocator(at::kCUDA)) {}
  void begin() override { allocator_.resetPeakStats(device_); }
  int64_t peak() override { return allocated().peak; }
  int64_t in_use() override { return allocated().current; }

 private:
  c10::CachingAllocator::Stat allocated() {
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return allocator_.getDeviceStats(device_).allocated_bytes[kAll];
  }
  const c10::DeviceIndex device_;
  c10::DeviceAllocator& allocator_;
};

class CudaOperators : public OperatorDevice {
 public:
  explicit CudaOperators(at::Device device) : device_(device) {}
  at::Device device() const override { return device_; }
  void run(NamedKernel& kernel, hal::Queue& queue) const override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    // LibTorch knows a stream that is not its own by the address behind it.
    const c10::StreamGuard current(
        c10::Stream(c10::Stream::UNSAFE, device_, reinterpret_cast<c10::StreamId>(hal::stream_of(queue))));
    if (!measures_) return kernel.execute_named();
    // The allocator counts for all ranks of the process.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    AllocatorMeter meter(device_);
    kernel.execute_metered(meter);
  }
  void measure_scratch(bool measure) const override { measures_ = measure; }

 private:
  const at::Device device_;
  mutable bool measures_ = false;
};

// Has the library make what it makes at a thread's first product, which a graph that is captured could not hold.
void warm_up(at::Device device) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor matrix = at::zeros({16, 16}, at::TensorOptions().dtype(type).device(device));
    (void)at::mm(matrix, matrix);
  }
}

}  // namespace

Result<std::unique_ptr<const OperatorDevice>> open_cuda_operators() {
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA))
    return Status::failure("R0106", "this LibTorch has no CUDA: its library libtorch_cuda.so is not loaded");
  int ordinal = 0;
  if (const cudaError_t error = cudaGetDevice(&ordinal); error != cudaSuccess)
    return Status::failure("R0106", std::string("no current GPU: ") + cudaGetErrorString(error));
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(ordinal));
  try {
    at::Context& context = at::globalContext();
    // Read by cuBLAS when its first handle is made: the same bits in every run.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    context.lazyInitDevice(at::kCUDA);
    context.setAllowTF32CuBLAS(false);
    context.setAllowTF32CuDNN(false);
    context.setAllowBF16ReductionCuBLAS(false);
    context.setAllowFP16ReductionCuBLAS(false);
    context.setBenchmarkCuDNN(false);
    context.setDeterministicCuDNN(true);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    warm_up(device);
  } catch (const c10::Error& error) {
    return Status::failure("R0106", std::string("LibTorch cannot use CUDA: ") + error.what_without_backtrace());
  }
  return std::unique_ptr<const OperatorDevice>(std::make_unique<CudaOperators>(device));
}

}  // namespace piper::kernels::cuda
