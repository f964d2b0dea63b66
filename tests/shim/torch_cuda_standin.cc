// LibTorch's CUDA part on the stand-in for CUDA: streams, the caching allocator with its pools, and the few operators
// that graph_scratch_test runs, each enqueued on the current stream and computed there by the CPU's. So what piper says
// to LibTorch on a GPU (cuda_operators.cc, scratch_pool.cc) is what runs here. Blocks are cached as LibTorch caches
// them: by pool and stream, given back by emptyCache() unless they are a pool's that somebody holds.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/library.h>

#include <list>
#include <map>
#include <mutex>
#include <set>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/cuda/cuda_library.h"
#include "runtime/kernels/cuda/cuda_operators.h"
#include "runtime/kernels/cuda/device_kernels.h"
#include "runtime/kernels/library/library_rows.h"
#include "tests/standin/standin.h"

namespace piper::shim {
namespace {

const c10::Device kDevice(c10::kCUDA, 0);
thread_local c10::Stream current_stream(c10::Stream::DEFAULT, kDevice);

cudaStream_t stream_now() { return reinterpret_cast<cudaStream_t>(current_stream.id()); }
void want(cudaError_t error) { TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error)); }

class Guard : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return current_stream; }
  c10::Stream exchangeStream(c10::Stream stream) const override { return std::exchange(current_stream, stream); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

struct Block {
  void* place;
  size_t bytes;
  c10::MempoolId_t pool;
  cudaStream_t stream;
  bool free;
};

class Allocator : public c10::DeviceAllocator {
 public:
  static Allocator& instance() {
    static Allocator* allocator = new Allocator;  // tensors may outlive main
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, kDevice};
    const std::lock_guard lock(mutex_);
    const cudaStream_t stream = stream_now();
    c10::MempoolId_t pool = {0, 0};
    for (const auto& [id, filter] : filters_)
      if (filter(stream)) pool = id;
    auto block = blocks_.begin();
    while (block != blocks_.end() &&
           !(block->free && block->pool == pool && block->stream == stream && block->bytes >= bytes))
      ++block;
    if (block == blocks_.end()) {
      void* place = nullptr;
      want(cudaMalloc(&place, bytes));
      block = blocks_.insert(blocks_.end(), {place, bytes, pool, stream, true});
      reserved_.increase(bytes);
    }
    block->free = false;
    allocated_.increase(block->bytes);
    return {block->place, &*block, &Allocator::put_back, kDevice};
  }
  void copy_data(void*, const void*, size_t) const override { TORCH_CHECK(false, "not on the stand-in"); }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    const std::lock_guard lock(mutex_);
    for (auto block = blocks_.begin(); block != blocks_.end();) {
      if (!block->free || held_.contains(block->pool)) {
        ++block;
        continue;
      }
      want(cudaFree(block->place));
      reserved_.decrease(block->bytes);
      block = blocks_.erase(block);
    }
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const std::lock_guard lock(mutex_);
    c10::CachingDeviceAllocator::DeviceStats stats;
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    stats.allocated_bytes[kAll] = allocated_;
    stats.reserved_bytes[kAll] = reserved_;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {
    const std::lock_guard lock(mutex_);
    allocated_.reset_peak();
    reserved_.reset_peak();
  }

  void begin_pool(c10::MempoolId_t pool, std::function<bool(cudaStream_t)> filter) {
    const std::lock_guard lock(mutex_);
    filters_[pool] = std::move(filter);
    held_.insert(pool);
  }
  void end_pool(c10::MempoolId_t pool) {
    const std::lock_guard lock(mutex_);
    filters_.erase(pool);
  }
  void release_pool(c10::MempoolId_t pool) {
    const std::lock_guard lock(mutex_);
    held_.erase(pool);
  }

 private:
  static void put_back(void* block) {
    Allocator& allocator = instance();
    const std::lock_guard lock(allocator.mutex_);
    static_cast<Block*>(block)->free = true;
    allocator.allocated_.decrease(static_cast<Block*>(block)->bytes);
  }

  std::mutex mutex_;
  std::list<Block> blocks_;
  std::map<c10::MempoolId_t, std::function<bool(cudaStream_t)>> filters_;
  std::set<c10::MempoolId_t> held_;
  c10::CachingAllocator::Stat allocated_, reserved_;
};

const bool allocator_set = (c10::SetAllocator(c10::kCUDA, &Allocator::instance()), true);

// ---- operators

standin::Range range_of(const at::Tensor& t) {
  int64_t last = 0;
  for (int64_t axis = 0; axis < t.dim(); ++axis) last += (t.size(axis) - 1) * t.stride(axis);
  return {t.data_ptr(), t.numel() == 0 ? 0 : static_cast<size_t>((last + 1) * t.element_size())};
}
// The memory as a stream sees it.
at::Tensor seen(const at::Tensor& t) {
  const standin::Range range = range_of(t);
  std::byte* const place = standin::alias(range.place, range.bytes);
  TORCH_CHECK(place != nullptr, "memory that is not the device's");
  return at::from_blob(place, t.sizes(), t.strides(), t.options().device(at::kCPU));
}
void enqueue(const char* name, const std::vector<at::Tensor>& reads, const std::vector<at::Tensor>& writes,
             std::function<void()> run) {
  if (stream_now() == nullptr) return run();  // before there are streams
  standin::Operation operation{name, {}, {}, std::move(run)};
  for (const at::Tensor& t : reads) operation.reads.push_back(range_of(t));
  for (const at::Tensor& t : writes) operation.writes.push_back(range_of(t));
  want(standin::enqueue(stream_now(), std::move(operation)));
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &Allocator::instance(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   dtype.value_or(at::kFloat), format);
}
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool) {
  enqueue("copy_", {from}, {to}, [to = seen(to), from = seen(from)] { to.copy_(from); });
  return to;
}
at::Tensor& zero(at::Tensor& t) {
  enqueue("zero_", {}, {t}, [t = seen(t)] { t.zero_(); });
  return t;
}
at::Tensor mm(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor y = at::empty({a.size(0), b.size(1)}, a.options());
  enqueue("mm", {a, b}, {y}, [y = seen(y), a = seen(a), b = seen(b)]() mutable { at::mm_out(y, a, b); });
  return y;
}
std::tuple<at::Tensor&, at::Tensor&> max_pool2d(const at::Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride,
                                                at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode,
                                                at::Tensor& y, at::Tensor& indices) {
  enqueue("max_pool2d", {x}, {y, indices},
          [x = seen(x), y = seen(y), indices = seen(indices), kernel = kernel.vec(), stride = stride.vec(),
           padding = padding.vec(), dilation = dilation.vec(), ceil_mode]() mutable {
            at::max_pool2d_with_indices_out(y, indices, x, kernel, stride, padding, dilation, ceil_mode);
          });
  return {y, indices};
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("copy_", &copy);
  m.impl("zero_", &zero);
  m.impl("mm", &mm);
  m.impl("max_pool2d_with_indices.out", &max_pool2d);
}

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace
}  // namespace piper::shim

// By the name that LibTorch looks for.
struct CUDAHooks : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
};
namespace at {
using ::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at

namespace c10::cuda::CUDACachingAllocator {

using piper::shim::Allocator;
void beginAllocateToPool(DeviceIndex, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) {
  Allocator::instance().begin_pool(pool, std::move(filter));
}
void endAllocateToPool(DeviceIndex, MempoolId_t pool) { Allocator::instance().end_pool(pool); }
void releasePool(DeviceIndex, MempoolId_t pool) { Allocator::instance().release_pool(pool); }

}  // namespace c10::cuda::CUDACachingAllocator

namespace piper::kernels::cuda {

// LibTorch's operators, and our own kernels, which the cases here do not launch: they want memory that the shim sees.
Result<std::unique_ptr<Library>> make_kernels(DeviceMemory memory) {
  static std::unique_ptr<const OperatorDevice> operators;
  if (operators == nullptr) {
    PIPER_ASSIGN(operators, open_cuda_operators());
  }
  PIPER_ASSIGN(auto library, CudaLibrary::make(std::move(memory), std::make_unique<LibraryRows>(*operators)));
  return std::unique_ptr<Library>(std::move(library));
}

}  // namespace piper::kernels::cuda
