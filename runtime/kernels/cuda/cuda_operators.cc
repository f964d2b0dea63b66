#include "runtime/kernels/cuda/cuda_operators.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/hal/cuda/cuda_stream.h"
#include "runtime/kernels/binding.h"
#include "runtime/kernels/cuda/scratch_pool.h"
#include "runtime/kernels/library/operator_settings.h"

namespace piper::kernels::cuda {
namespace {

// For LibTorch's caching allocator.
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

// Ranks of this process on each GPU, which share what its allocator has reserved.
std::atomic<int64_t>& ranks_on(at::Device device) {
  static std::array<std::atomic<int64_t>, 256> ranks{};
  return ranks.at(static_cast<size_t>(device.index()));
}

class CudaOperators : public OperatorDevice {
 public:
  explicit CudaOperators(at::Device device) : device_(device), pool_(device.index()) { ++ranks_on(device); }
  ~CudaOperators() override { --ranks_on(device_); }
  at::Device device() const override { return device_; }
  void run(NamedKernel& kernel, hal::Queue& queue) const override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    // LibTorch knows a stream that is not its own by its address.
    const c10::StreamGuard current(
        c10::Stream(c10::Stream::UNSAFE, device_, reinterpret_cast<c10::StreamId>(hal::stream_of(queue))));
    const ScratchPool::Use mine(pool_);
    issue_with_settings(kernel, [&] {
      if (!measures_) return kernel.execute_named();
      // The allocator counts for all ranks of the process.
      static std::mutex one_at_a_time;
      const std::lock_guard lock(one_at_a_time);
      AllocatorMeter meter(device_);
      if (auto beyond = kernel.execute_metered(meter)) beyond_.insert_or_assign(beyond->call, *beyond);
    });
  }
  void measure_scratch(bool measure) const override { measures_ = measure; }
  std::vector<ScratchBeyondPlan> scratch_beyond_plan() const override {
    std::vector<ScratchBeyondPlan> calls;
    for (const auto& [call, beyond] : beyond_) calls.push_back(beyond);
    return calls;
  }
  // Its workspaces included. A rank's share.
  int64_t reserved_bytes() const override {
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const int64_t reserved =
        c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(device_.index()).reserved_bytes[kAll].peak;
    return reserved / std::max<int64_t>(ranks_on(device_), 1);
  }

 private:
  const at::Device device_;
  const ScratchPool pool_;
  mutable bool measures_ = false;
  mutable std::map<std::string, ScratchBeyondPlan> beyond_;
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
    // Read by cuBLAS when its first handle is made: the same bits in every run.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    at::globalContext().lazyInitDevice(at::kCUDA);
    set_up_operators();
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    warm_up(device);
  } catch (const c10::Error& error) {
    return Status::failure("R0106", std::string("LibTorch cannot use CUDA: ") + error.what_without_backtrace());
  }
  return std::unique_ptr<const OperatorDevice>(std::make_unique<CudaOperators>(device));
}

}  // namespace piper::kernels::cuda
