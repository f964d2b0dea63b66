#include "tests/standin/standin_backend.h"

#include <functional>
#include <utility>

#include "runtime/hal/cpu/position_sum.h"
#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_device.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/cuda/local_collectives.h"
#include "schemas/plan/convert_elements.h"
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
                                                        const kernels::TrainingNumbers& numbers) const override {
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

// A function of the host at its place in the stream.
class HostFunction : public hal::Command {
 public:
  explicit HostFunction(std::function<void()> body) : body_(std::move(body)) {}
  Status issue(hal::Queue& queue, const hal::Submission&) override {
    PIPER_CUDA(
        cudaLaunchHostFunc(stream_of(queue), [](void* data) { static_cast<HostFunction*>(data)->body_(); }, this));
    return {};
  }

 private:
  std::function<void()> body_;
};

hal::Address aliased(hal::Address place) { return hal::Address(alias(place.in_device(), 0)); }

hal::MadeCommand sum_pieces(hal::PieceSum sum) {
  PIPER_RETURN_IF_ERROR(hal::check_sum(sum));
  sum.own = aliased(sum.own);
  sum.others = aliased(sum.others);
  return std::unique_ptr<hal::Command>(
      std::make_unique<HostFunction>([sum] { hal::add_piece(sum, &kernels::add_f32); }));
}

hal::MadeCommand convert(hal::Elements to, hal::Elements from, int64_t count) {
  return std::unique_ptr<hal::Command>(std::make_unique<HostFunction>([=] {
    convert_elements(from.type, aliased(from.data).in_device(), to.type, aliased(to.data).in_device(), count);
  }));
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
    backend.collectives = hal::make_cuda_local_collectives(transport, *backend.device, {&sum_pieces, &convert});
    return backend;
  };
}

}  // namespace piper::standin
