// `update`: a program of the optimizer's kernels, which clear the gradients that they use.
#include <cstring>

#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

// A gradient that is copied before the update clears it.
struct Captured {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};

class PreparedUpdate : public PreparedInstruction {
 public:
  PreparedUpdate(const plan::Bundle& bundle, std::unique_ptr<BoundProgram> program, std::vector<Captured> captured)
      : bundle_(bundle), program_(std::move(program)), captured_(std::move(captured)) {}
  Status execute(const StepContext& context) override {
    if (context.capture_gradients)
      for (const Captured& gradient : captured_) std::memcpy(gradient.to, gradient.from, gradient.bytes);
    return run_program(bundle_, *program_);
  }

 private:
  const plan::Bundle& bundle_;
  std::unique_ptr<BoundProgram> program_;
  std::vector<Captured> captured_;  // empty: gradients are not saved
};

}  // namespace

Prepared prepare_update(const plan::Update& update, int32_t, PrepareContext& context) {
  const plan::Optimizer& optimizer = context.bundle->manifest.optimizer;
  const kernels::OptimizerNumbers numbers{&optimizer,
                                          optimizer.groups.at(static_cast<size_t>(update.group)).weight_decay};
  PIPER_ASSIGN(auto bound, bind_program(update.program, update.arguments, update.workspace, context, &numbers));
  std::vector<Captured> captured;
  if (context.gradients != nullptr) {
    const auto& slots = bound->program->slots;
    const auto& arguments = context.plan->arguments[static_cast<size_t>(update.arguments)].arguments;
    for (size_t slot = 0; slot < slots.size(); ++slot)
      if (slots[slot].role == plan::SlotRole::kGradient)
        captured.push_back({context.gradients->reserve(arguments[slot], slots[slot].bytes), context.at(arguments[slot]),
                            static_cast<size_t>(slots[slot].bytes)});
  }
  return std::unique_ptr<PreparedInstruction>(
      std::make_unique<PreparedUpdate>(*context.bundle, std::move(bound), std::move(captured)));
}

}  // namespace piper::exec
