#include "runtime/kernels/bind_blocks.h"

#include <algorithm>
#include <utility>

#include "runtime/kernels/call_reader.h"
#include "schemas/plan/head_blocks.h"
#include "schemas/plan/signature.h"

namespace piper::kernels {
namespace {

class Blocks : public PreparedKernel {
 public:
  explicit Blocks(std::vector<std::unique_ptr<PreparedKernel>> kernels) : kernels_(std::move(kernels)) {}
  void run(hal::Queue& queue) override {
    for (const std::unique_ptr<PreparedKernel>& kernel : kernels_) kernel->run(queue);
  }
  bool wrote(const std::byte* record) const override {
    return std::any_of(kernels_.begin(), kernels_.end(), [&](const auto& kernel) { return kernel->wrote(record); });
  }

 private:
  std::vector<std::unique_ptr<PreparedKernel>> kernels_;
};

}  // namespace

Result<std::unique_ptr<PreparedKernel>> bind_blocks(const Library& library, const plan::KernelCall& call,
                                                    const std::vector<BoundOperand>& outputs,
                                                    const std::vector<BoundOperand>& inputs,
                                                    const TrainingNumbers& numbers) {
  if (const std::string wrong = plan::misfit(*plan::find_kernel(call.kernel), call); !wrong.empty())
    return misfit(call, wrong);
  const auto bound = [&](const std::vector<plan::Operand>& operands) {
    std::vector<BoundOperand> list;
    for (const plan::Operand& operand : operands) {
      hal::Address data;
      if (operand.slot >= 0) {
        const auto place = static_cast<size_t>(operand.slot);
        data = (place < inputs.size() ? inputs[place] : outputs[place - inputs.size()]).data;
      }
      list.push_back({data.nowhere() ? data : data + operand.offset, &operand});
    }
    return list;
  };
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
  for (const plan::KernelCall& block : plan::calls_on_blocks(call)) {
    PIPER_ASSIGN(std::unique_ptr<PreparedKernel> kernel,
                 library.bind(block, bound(block.outputs), bound(block.inputs), numbers));
    kernels.push_back(std::move(kernel));
  }
  return std::unique_ptr<PreparedKernel>(std::make_unique<Blocks>(std::move(kernels)));
}

}  // namespace piper::kernels
