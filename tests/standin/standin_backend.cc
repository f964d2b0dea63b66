#include "tests/standin/standin_backend.h"

#include <stdexcept>
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

// Bytes from the first to the last element.
Range range_of(const BoundOperand& bound) {
  if (bound.data.nowhere()) return {};
  const plan::Operand& operand = *bound.operand;
  int64_t last = 0, contiguous = 1;
  for (size_t axis = operand.shape.size(); axis-- > 0;) {
    if (operand.shape[axis] == 0) return {};
    last += (operand.shape[axis] - 1) * (axis < operand.strides.size() ? operand.strides[axis] : contiguous);
    contiguous *= operand.shape[axis];
  }
  return {bound.data.in_device(), static_cast<size_t>((last + 1) * dtype_bytes(operand.dtype))};
}

std::vector<Range> ranges_of(const std::vector<BoundOperand>& operands) {
  std::vector<Range> ranges;
  for (const BoundOperand& operand : operands)
    if (const Range range = range_of(operand); range.bytes > 0) ranges.push_back(range);
  return ranges;
}

Range range(hal::Address place, int64_t bytes) { return {place.in_device(), static_cast<size_t>(bytes)}; }

// The kernel at its place in the stream, which may come there when this is gone.
class Launched : public kernels::PreparedKernel {
 public:
  Launched(std::unique_ptr<kernels::PreparedKernel> kernel, Operation operation)
      : kernel_(std::move(kernel)), operation_(std::move(operation)) {}
  void run(hal::Queue& queue) override {
    Operation operation = operation_;
    operation.run = [kernel = kernel_, &queue] {
      kernels::enter_worker_thread(1);
      kernel->run(queue);  // which ignores the queue
    };
    if (const cudaError_t error = enqueue(stream_of(queue), std::move(operation)); error != cudaSuccess)
      throw std::runtime_error(std::string("launch: ") + cudaGetErrorString(error));
  }

 private:
  std::shared_ptr<kernels::PreparedKernel> kernel_;
  const Operation operation_;
};

class Library : public kernels::Library {
 public:
  Result<std::unique_ptr<kernels::PreparedKernel>> bind(const plan::KernelCall& call,
                                                        const std::vector<BoundOperand>& outputs,
                                                        const std::vector<BoundOperand>& inputs,
                                                        const kernels::TrainingNumbers& numbers) const override {
    PIPER_ASSIGN(auto kernel, kernels::cpu_library().bind(call, aliases(outputs), aliases(inputs), numbers));
    return launched(std::move(kernel), operation_of(call, outputs, inputs));
  }

 private:
  static std::vector<BoundOperand> aliases(std::vector<BoundOperand> operands) {
    for (BoundOperand& operand : operands)
      if (!operand.data.nowhere()) operand.data = hal::Address(alias(operand.data.in_device(), 0));
    return operands;
  }
};

class Enqueued : public hal::Command {
 public:
  explicit Enqueued(Operation operation) : operation_(std::move(operation)) {}
  Status issue(hal::Queue& queue, const hal::Submission&) override {
    PIPER_CUDA(enqueue(stream_of(queue), operation_));
    return {};
  }

 private:
  const Operation operation_;
};

hal::Address aliased(hal::Address place) { return hal::Address(alias(place.in_device(), 0)); }

hal::MadeCommand sum_pieces(hal::PieceSum sum) {
  PIPER_RETURN_IF_ERROR(hal::check_sum(sum));
  Operation operation = operation_of(sum);
  sum.own = aliased(sum.own);
  sum.others = aliased(sum.others);
  operation.run = [sum] { hal::add_piece(sum, &kernels::add_f32); };
  return std::unique_ptr<hal::Command>(std::make_unique<Enqueued>(std::move(operation)));
}

hal::MadeCommand convert(hal::Elements to, hal::Elements from, int64_t count) {
  Operation operation = operation_of(to, from, count);
  operation.run = [from = hal::Elements{aliased(from.data), from.type}, to = hal::Elements{aliased(to.data), to.type},
                   count] { convert_elements(from.type, from.data.in_device(), to.type, to.data.in_device(), count); };
  return std::unique_ptr<hal::Command>(std::make_unique<Enqueued>(std::move(operation)));
}

}  // namespace

const kernels::Library& library() {
  static const Library library;
  return library;
}

hal::GroupKernels group_kernels() { return {&sum_pieces, &convert}; }

std::unique_ptr<kernels::PreparedKernel> launched(std::unique_ptr<kernels::PreparedKernel> kernel,
                                                  Operation operation) {
  return std::make_unique<Launched>(std::move(kernel), std::move(operation));
}

Operation operation_of(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                       const std::vector<BoundOperand>& inputs) {
  return {call.kernel.text(), ranges_of(inputs), ranges_of(outputs), {}};
}

Operation operation_of(const hal::PieceSum& sum) {
  const int64_t bytes = sum.count * dtype_bytes(sum.message);
  std::vector<Range> touched{range(sum.own, bytes)};
  for (int64_t member = 0; member < sum.members; ++member)
    if (member != sum.position) touched.push_back(range(sum.place_of(member), bytes));
  return {"sum of pieces", touched, touched, {}};
}

Operation operation_of(const hal::Elements& to, const hal::Elements& from, int64_t count) {
  return {"conversion",
          {range(from.data, count * dtype_bytes(from.type))},
          {range(to.data, count * dtype_bytes(to.type))},
          {}};
}

Result<exec::Backend> open_gpu(int ordinal, const plan::RankPlan& plan, const GpuOptions& options) {
  exec::Backend backend;
  PIPER_ASSIGN(backend.device,
               hal::make_cuda_device({.ordinal = ordinal, .graphs = options.graphs}, hal::queues_of(plan)));
  if (options.kernels) {
    PIPER_ASSIGN(backend.kernels, options.kernels(*backend.device));
  } else {
    backend.kernels = {std::shared_ptr<void>(), &library()};
  }
  if (options.watch) backend.device = watch_device(std::move(backend.device), options.watch(plan));
  return backend;
}

exec::MakeBackend local_backend(hal::Transport& transport, GpuOptions options) {
  return [&transport, options = std::move(options)](const plan::RankPlan& plan) -> Result<exec::Backend> {
    PIPER_ASSIGN(exec::Backend backend, open_gpu(0, plan, options));
    backend.collectives = hal::make_cuda_local_collectives(transport, *backend.device, options.groups);
    return backend;
  };
}

}  // namespace piper::standin
