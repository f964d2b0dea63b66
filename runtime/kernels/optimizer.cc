// The optimizers, element by element in f32 with the operations and order of torch.optim's plain
// (single-tensor) form; factors that are the same for all elements are taken in double as Python does.
// The gradient is cleared in the same pass. No element sees another, and the loops have one order of
// operations, so the bits do not depend on how a range is cut.
#include <cmath>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/clones.h"
#include "schemas/base/check.h"

namespace piper::kernels {
namespace {

struct Sgd {
  float lr, momentum, weight_decay, scale;
  bool first;
};

// torch.optim.SGD, dampening 0: buf = momentum buf + g, the first time buf = g.
PIPER_CLONES void sgd_plain(float* p, float* g, int64_t count, Sgd s) {
  for (int64_t i = 0; i < count; ++i) {
    const float grad = g[i] * s.scale + s.weight_decay * p[i];
    p[i] = p[i] - s.lr * grad;
    g[i] = 0;
  }
}
PIPER_CLONES void sgd_momentum(float* p, float* g, float* m, int64_t count, Sgd s) {
  const float keep = s.first ? 0.0f : s.momentum;
  for (int64_t i = 0; i < count; ++i) {
    const float grad = g[i] * s.scale + s.weight_decay * p[i];
    const float buffer = keep * m[i] + grad;
    m[i] = buffer;
    p[i] = p[i] - s.lr * buffer;
    g[i] = 0;
  }
}
PIPER_CLONES void sgd_nesterov(float* p, float* g, float* m, int64_t count, Sgd s) {
  const float keep = s.first ? 0.0f : s.momentum;
  for (int64_t i = 0; i < count; ++i) {
    const float grad = g[i] * s.scale + s.weight_decay * p[i];
    const float buffer = keep * m[i] + grad;
    m[i] = buffer;
    p[i] = p[i] - s.lr * (grad + s.momentum * buffer);
    g[i] = 0;
  }
}

struct Adam {
  float beta1_rest, beta2, beta2_rest, bias2_root, eps, step_size, decay, l2, scale;
};

// torch.optim.Adam (decay 1, L2 into the gradient) and AdamW (decoupled decay, l2 0).
PIPER_CLONES void adam(float* p, float* g, float* m, float* v, int64_t count, Adam a) {
  for (int64_t i = 0; i < count; ++i) {
    const float weight = p[i] * a.decay;
    const float grad = g[i] * a.scale + a.l2 * weight;
    const float first = m[i] + a.beta1_rest * (grad - m[i]);
    const float second = v[i] * a.beta2 + a.beta2_rest * grad * grad;
    const float denominator = std::sqrt(second) / a.bias2_root + a.eps;
    m[i] = first;
    v[i] = second;
    p[i] = weight - a.step_size * first / denominator;
    g[i] = 0;
  }
}

PIPER_CLONES void add(float* dst, const float* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dst[i] += src[i];
}

struct OptimizerStep {  // a call, bound
  OptimizerNumbers numbers;
  float* parameter = nullptr;
  float* gradient = nullptr;  // cleared
  float* m = nullptr;         // momentum or first moment; nullptr where unused
  float* v = nullptr;
  const float* scale = nullptr;  // nullptr: 1
  int64_t count = 0;
};

// step counts from 1; lr is the scheduled rate.
void apply(const OptimizerStep& update, int64_t step, double lr) {
  PIPER_CHECK(step >= 1, "step ", step);
  const plan::Optimizer& o = *update.numbers.optimizer;
  const float scale = update.scale != nullptr ? *update.scale : 1.0f;
  if (o.kind == "sgd") {
    const Sgd s{static_cast<float>(lr), static_cast<float>(o.momentum), static_cast<float>(update.numbers.weight_decay),
                scale, step == 1};
    if (o.momentum == 0) return sgd_plain(update.parameter, update.gradient, update.count, s);
    if (o.nesterov) return sgd_nesterov(update.parameter, update.gradient, update.m, update.count, s);
    return sgd_momentum(update.parameter, update.gradient, update.m, update.count, s);
  }
  const bool decoupled = o.kind == "adamw";
  const double bias1 = 1 - std::pow(o.beta1, static_cast<double>(step));
  const double bias2 = 1 - std::pow(o.beta2, static_cast<double>(step));
  const Adam a{static_cast<float>(1 - o.beta1),
               static_cast<float>(o.beta2),
               static_cast<float>(1 - o.beta2),
               static_cast<float>(std::sqrt(bias2)),
               static_cast<float>(o.eps),
               static_cast<float>(lr / bias1),
               decoupled ? static_cast<float>(1 - lr * update.numbers.weight_decay) : 1.0f,
               decoupled ? 0.0f : static_cast<float>(update.numbers.weight_decay),
               scale};
  adam(update.parameter, update.gradient, update.m, update.v, update.count, a);
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_optimizer(const Call& call) {
  OptimizerStep update;
  update.numbers = call.numbers();
  if (update.numbers.optimizer->kind != call.name()) refuse("the optimizer is ", update.numbers.optimizer->kind);
  update.count = call.out(0).numel();
  const auto state = [&](size_t i) -> float* {
    const at::Tensor values = call.out(i);
    if (!values.defined()) return nullptr;
    want_dtype(values, at::kFloat, "an output");
    if (values.numel() != update.count || !values.is_contiguous()) refuse("output ", i, " is no range like the first");
    return values.mutable_data_ptr<float>();
  };
  const auto value = [&](size_t i, at::ScalarType type) {
    want_dtype(call.in(i), type, "an input");
    if (call.in(i).numel() != 1) refuse("input ", i, " is no scalar");
    return call.in(i).const_data_ptr();
  };
  update.parameter = state(0);
  update.gradient = state(1);
  update.m = state(2);
  update.v = state(3);
  if (update.parameter == nullptr || update.gradient == nullptr) refuse("parameter or gradient is absent");
  const bool adam = call.name() != "sgd";
  if ((update.m != nullptr) != (adam || update.numbers.optimizer->momentum != 0) || (update.v != nullptr) != adam)
    refuse("its moments are not those of the optimizer");
  const auto* rate = static_cast<const double*>(value(0, at::kDouble));
  const auto* step = static_cast<const int64_t*>(value(1, at::kLong));
  if (call.num_inputs() > 2) update.scale = static_cast<const float*>(value(2, at::kFloat));
  return make_kernel(call, [update, rate, step] { apply(update, *step, *rate); });
}

std::unique_ptr<PreparedKernel> bind_advance(const Call& call) {
  want_dtype(call.out(0), at::kLong, "the output");
  if (call.out(0).numel() != 1) refuse("the output is no scalar");
  return make_kernel(call, [count = call.out(0).mutable_data_ptr<int64_t>()] { ++*count; });
}

void add_f32(float* dst, const float* src, int64_t count) { add(dst, src, count); }

}  // namespace piper::kernels
