// `update`: the optimizer on one range of parameters; clears their gradient.
#include <cstring>

#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedUpdate : public PreparedInstruction {
 public:
  PreparedUpdate(const kernels::OptimizerStep& update, std::byte* captured) : update_(update), captured_(captured) {}
  Status execute(const StepContext& context) override {
    if (captured_ != nullptr && context.capture_gradients)
      std::memcpy(captured_, update_.gradient, static_cast<size_t>(update_.count) * sizeof(float));
    kernels::apply(update_, context.step, context.lr);
    return {};
  }

 private:
  kernels::OptimizerStep update_;
  std::byte* captured_;  // nullptr: gradients are not saved
};

}  // namespace

Prepared prepare_update(const plan::Update& update, int32_t, PrepareContext& context) {
  const plan::Optimizer& optimizer = context.bundle->manifest.optimizer;
  auto floats = [&](const plan::BufferRange& range) { return reinterpret_cast<float*>(context.at(range)); };
  kernels::OptimizerStep step;
  step.optimizer = &optimizer;
  if (update.group >= 0) step.weight_decay = optimizer.groups.at(static_cast<size_t>(update.group)).weight_decay;
  step.parameter = floats(update.parameter);
  step.gradient = floats(update.gradient);
  step.m = floats(update.m);
  step.v = floats(update.v);
  step.scale = floats(update.scale);
  step.count = update.count;
  std::byte* captured = nullptr;
  if (context.gradients != nullptr)
    captured = context.gradients->reserve(update.gradient, update.count * static_cast<int64_t>(sizeof(float)));
  return std::unique_ptr<PreparedInstruction>(std::make_unique<PreparedUpdate>(step, captured));
}

}  // namespace piper::exec
