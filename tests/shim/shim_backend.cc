#include "tests/shim/shim_backend.h"

#include <utility>

#include "runtime/kernels/bind_blocks.h"
#include "runtime/kernels/cuda/cuda_library.h"
#include "runtime/kernels/cuda/device_kernels.h"
#include "runtime/kernels/cuda/group_commands.h"
#include "schemas/plan/head_blocks.h"
#include "tests/shim/host_operators.h"

namespace piper::shim {

namespace {

using kernels::BoundOperand;
using standin::LaunchesOf;
using standin::Operation;
using standin::operation_of;

// Device memory as its streams see it.
hal::Address aliased(hal::Address place) {
  return place.nowhere() ? place : hal::Address(standin::alias(place.in_device(), 0));
}

class Launched : public kernels::PreparedKernel {
 public:
  Launched(std::unique_ptr<kernels::PreparedKernel> kernel, Operation operation)
      : kernel_(std::move(kernel)), operation_(std::move(operation)) {}
  void run(hal::Queue& queue) override {
    const LaunchesOf named(operation_);
    kernel_->run(queue);
  }
  bool wrote(const std::byte* record) const override { return kernel_->wrote(record); }

 private:
  std::unique_ptr<kernels::PreparedKernel> kernel_;
  const Operation operation_;
};

class LaunchedCommand : public hal::Command {
 public:
  LaunchedCommand(std::unique_ptr<hal::Command> command, Operation operation)
      : command_(std::move(command)), operation_(std::move(operation)) {}
  Status issue(hal::Queue& queue, const hal::Submission& submission) override {
    const LaunchesOf named(operation_);
    return command_->issue(queue, submission);
  }

 private:
  std::unique_ptr<hal::Command> command_;
  const Operation operation_;
};

hal::MadeCommand launched(hal::MadeCommand made, Operation operation) {
  if (!made.ok()) return made;
  return std::unique_ptr<hal::Command>(
      std::make_unique<LaunchedCommand>(std::move(made).value(), std::move(operation)));
}

class Library : public kernels::Library {
 public:
  // `device` is asked for memory while kernels are bound.
  static Result<std::shared_ptr<const kernels::Library>> make(hal::Device& device) {
    auto library = std::make_shared<Library>();
    kernels::cuda::DeviceMemory memory;
    memory.allocate = [&device, regions = &library->regions_](int64_t bytes) -> Result<hal::Address> {
      PIPER_ASSIGN(auto region, device.allocate(bytes));  // the first one begins with the record of faults
      regions->push_back(std::move(region));
      return aliased(regions->back()->base());
    };
    PIPER_ASSIGN(library->kernels_, kernels::cuda::CudaLibrary::make(memory, host_operators()));
    return std::shared_ptr<const kernels::Library>(std::move(library));
  }
  Result<std::unique_ptr<kernels::PreparedKernel>> bind(const plan::KernelCall& call,
                                                        const std::vector<BoundOperand>& outputs,
                                                        const std::vector<BoundOperand>& inputs,
                                                        const kernels::TrainingNumbers& numbers) const override {
    if (plan::is_of_blocks(call.kernel)) return kernels::bind_blocks(*this, call, outputs, inputs, numbers);
    const auto aliases = [](std::vector<BoundOperand> operands) {
      for (BoundOperand& operand : operands) operand.data = aliased(operand.data);
      return operands;
    };
    PIPER_ASSIGN(auto kernel, kernels_->bind(call, aliases(outputs), aliases(inputs), numbers));
    if (!kernels::cuda::has_own_row(call.kernel.name()))
      return standin::launched(std::move(kernel), operation_of(call, outputs, inputs));
    return std::unique_ptr<kernels::PreparedKernel>(
        std::make_unique<Launched>(std::move(kernel), operation_of(call, outputs, inputs)));
  }
  kernels::FaultRecord fault_record() const override {
    return {regions_.front()->base(), kernels_->fault_record().bytes};
  }
  Status read_fault(const std::byte* record) const override { return kernels_->read_fault(record); }
  bool wants_rehearsal() const override { return true; }
  int64_t memory_bytes() const override { return kernels_->memory_bytes(); }

 private:
  std::vector<std::unique_ptr<hal::MemoryRegion>> regions_;
  std::unique_ptr<kernels::cuda::CudaLibrary> kernels_;
};

hal::MadeCommand sum_pieces(hal::PieceSum sum) {
  Operation operation = operation_of(sum);
  sum.own = aliased(sum.own);
  sum.others = aliased(sum.others);
  return launched(kernels::cuda::make_piece_sum(sum), std::move(operation));
}
hal::MadeCommand convert(hal::Elements to, hal::Elements from, int64_t count) {
  Operation operation = operation_of(to, from, count);
  to.data = aliased(to.data);
  from.data = aliased(from.data);
  return launched(kernels::cuda::make_conversion(to, from, count), std::move(operation));
}

}  // namespace

void use_own_kernels(standin::GpuOptions& options) {
  options.kernels = &kernels::cuda::open_kernels;
  options.groups = kernels::cuda::group_kernels();
}

}  // namespace piper::shim

// In place of runtime/kernels/cuda/device_kernels.cc.
namespace piper::kernels::cuda {

Result<std::shared_ptr<const Library>> open_kernels(hal::Device& device) { return shim::Library::make(device); }
hal::GroupKernels group_kernels() { return {&shim::sum_pieces, &shim::convert}; }

}  // namespace piper::kernels::cuda
