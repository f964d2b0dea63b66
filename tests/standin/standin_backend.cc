#include "tests/standin/standin_backend.h"

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_device.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/cuda/local_collectives.h"
#include "tests/standin/standin.h"

namespace piper::standin {

namespace {

using kernels::BoundOperand;

cudaStream_t stream_of(hal::Queue& queue) { return static_cast<hal::CudaQueue&>(queue).stream(); }

class Launched : public kernels::PreparedKernel {
 public:
  explicit Launched(std::unique_ptr<kernels::PreparedKernel> kernel) : kernel_(std::move(kernel)) {}
  void run(hal::Queue& queue) override {
    queue_ = &queue;
    if (cudaLaunchHostFunc(stream_of(queue), &Launched::launch, this) != cudaSuccess)
      throw std::runtime_error("a launch failed");
  }

 private:
  static void launch(void* data) {
    kernels::enter_worker_thread(1);
    const Launched& launched = *static_cast<Launched*>(data);
    launched.kernel_->run(*launched.queue_);
  }
  std::unique_ptr<kernels::PreparedKernel> kernel_;
  hal::Queue* queue_ = nullptr;  // of the last launch; the CPU's kernels ignore it
};

class Library : public kernels::Library {
 public:
  Result<std::unique_ptr<kernels::PreparedKernel>> bind(const plan::KernelCall& call,
                                                        const std::vector<BoundOperand>& outputs,
                                                        const std::vector<BoundOperand>& inputs,
                                                        const kernels::OptimizerNumbers* numbers) const override {
    PIPER_ASSIGN(auto kernel, kernels::cpu_library().bind(call, aliases(outputs), aliases(inputs), numbers));
    return std::unique_ptr<kernels::PreparedKernel>(std::make_unique<Launched>(std::move(kernel)));
  }

 private:
  static std::vector<BoundOperand> aliases(std::vector<BoundOperand> operands) {
    for (BoundOperand& operand : operands)
      if (!operand.data.nowhere()) operand.data = hal::Address(alias(operand.data.in_device(), 0));
    return operands;
  }
};

template <class T>
class Add : public hal::Command {
 public:
  Add(hal::Address to, hal::Address from, int64_t count)
      : to_(reinterpret_cast<T*>(alias(to.in_device(), 0))),
        from_(reinterpret_cast<const T*>(alias(from.in_device(), 0))),
        count_(count) {}
  Status issue(hal::Queue& queue, const hal::Submission&) override {
    PIPER_CUDA(cudaLaunchHostFunc(stream_of(queue), &Add::launch, this));
    return {};
  }

 private:
  static void launch(void* data) {
    const Add& add = *static_cast<Add*>(data);
    for (int64_t i = 0; i < add.count_; ++i) add.to_[i] += add.from_[i];
  }
  T* to_;
  const T* from_;
  int64_t count_;
};

template <class T>
hal::MadeCommand add_of(hal::Address to, hal::Address from, int64_t count) {
  return std::unique_ptr<hal::Command>(std::make_unique<Add<T>>(to, from, count));
}

hal::MadeCommand make_add(hal::Address to, hal::Address from, int64_t count, DType dtype) {
  if (dtype == DType::kF32) return add_of<float>(to, from, count);
  if (dtype == DType::kI64) return add_of<int64_t>(to, from, count);
  return Status::failure("R0404", "the stand-in cannot add " + std::string(dtype_name(dtype)));
}

}  // namespace

const kernels::Library& library() {
  static const Library library;
  return library;
}

exec::MakeBackend local_backend(hal::Transport& transport) {
  return [&transport](const plan::RankPlan& plan) -> Result<exec::Backend> {
    exec::Backend backend;
    backend.kernels = &library();
    PIPER_ASSIGN(backend.device, hal::make_cuda_device(0, hal::queues_of(plan)));
    backend.collectives = hal::make_cuda_local_collectives(transport, *backend.device, &make_add);
    return backend;
  };
}

}  // namespace piper::standin
