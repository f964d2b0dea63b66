// The binder of the optimizers; of the step's count and the loss scale, which follow an update.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/gradient_scalars.h"
#include "runtime/kernels/cuda/optimizer.h"
#include "schemas/plan/optimizers.h"

namespace piper::kernels::cuda {

MadeKernel bind_update(const BoundCall& call) {
  enum State : size_t { kParameter, kGradient, kFirstMoment, kSecondMoment };
  const TrainingNumbers& numbers = call.update_numbers();
  const plan::OptimizerNumbers& o = *numbers.optimizer;
  if (o.kind != call.name()) refuse("the optimizer is ", o.kind);
  if (!call.out(kParameter).defined || !call.out(kGradient).defined) refuse("parameter or gradient is absent");
  want_gradient(call.out(0));
  const plan::OptimizerInfo& info = *plan::find_optimizer(call.name());
  if (info.of_matrices) refuse("only CPU ranks can update whole matrices");
  const int num_moments = info.num_moments(o);
  const size_t num_states = kFirstMoment + static_cast<size_t>(info.moments);
  const auto range = [&](size_t i) -> void* {
    const View& values = call.out(i);
    if (!values.defined) return nullptr;
    if (values.elements() != call.out(0).elements() || !values.contiguous())
      refuse("output ", i, " is no range like the first");
    if (i < num_states) want_same_dtype(call.out(0), values);
    else want_gradient(values);
    return values.data;
  };
  Update u;
  u.count = call.out(0).elements();
  u.type = u.working_type = call.out(0).dtype;
  u.parameter = range(kParameter);
  u.gradient = range(kGradient);
  u.first_moment = range(kFirstMoment);
  if (info.moments > 1) u.second_moment = range(kSecondMoment);
  u.working = range(num_states);
  if (u.working != nullptr) u.working_type = call.out(num_states).dtype;
  if ((u.first_moment != nullptr) != (num_moments > 0) || (u.second_moment != nullptr) != (num_moments > 1))
    refuse("its moments are not those of the optimizer");
  u.rule = info.rule;
  u.nesterov = o.nesterov;
  u.momentum = o.momentum;
  u.beta1 = o.beta1;
  u.beta2 = o.beta2;
  u.eps = o.eps;
  u.weight_decay = numbers.weight_decay;
  u.rate = numbers.rate;
  u.decoupled = info.decay == plan::WeightDecay::kDecoupled;
  u.learning_rate = scalar_of<const double>(call.in(0), DType::kF64, "input 0");
  u.step = scalar_of<const int64_t>(call.in(1), DType::kI64, "input 1");
  if (call.in(2).defined) u.factor = scalar_of<const float>(call.in(2), DType::kF32, "input 2");
  if (call.in(3).defined) u.overflow = scalar_of<const float>(call.in(3), DType::kF32, "input 3");
  return make_kernel([u](cudaStream_t stream) { launch_update(u, stream); });
}

MadeKernel bind_advance(const BoundCall& call) {
  auto* count = scalar_of<int64_t>(call.out(0), DType::kI64, "the output");
  const float* overflow = call.in(0).defined ? scalar_of<const float>(call.in(0), DType::kF32, "the input") : nullptr;
  return make_kernel([=](cudaStream_t stream) { launch_advance(count, overflow, stream); });
}

MadeKernel bind_advance_loss_scale(const BoundCall& call) {
  auto* scale = scalar_of<float>(call.out(0), DType::kF32, "output 0");
  auto* good = scalar_of<int64_t>(call.out(1), DType::kI64, "output 1");
  const auto* overflow = scalar_of<const float>(call.in(0), DType::kF32, "the input");
  return make_kernel([=, dynamic = call.attr_bool("dynamic")](cudaStream_t stream) {
    launch_advance_loss_scale(scale, good, overflow, dynamic, stream);
  });
}

}  // namespace piper::kernels::cuda
