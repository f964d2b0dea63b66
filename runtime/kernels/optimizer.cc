// The optimizers, element by element in f32 whatever the elements are kept as, with the operations and order of
// torch.optim's plain (single-tensor) form; factors that are the same for all elements are taken in double as Python
// does. The gradient is cleared in the same pass. No element sees another, and the loops have one order of operations,
// so the bits do not depend on how a range is cut. Except for Muon, which takes a matrix as a whole (muon.h).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/clones.h"
#include "runtime/kernels/element_type.h"
#include "runtime/kernels/muon.h"
#include "schemas/base/check.h"
#include "schemas/plan/convert_elements.h"
#include "schemas/plan/optimizers.h"

namespace piper::kernels {
namespace {

struct Sgd {
  float lr, momentum, weight_decay, scale;
  bool first;
};

// The gradient with what an L2 penalty adds: nothing where there is none, also for a weight that is infinite.
PIPER_INLINE float penalised(float gradient, float scale, float l2, float weight) {
  return l2 == 0 ? gradient * scale : gradient * scale + l2 * weight;
}

// torch.optim.SGD, dampening 0: buf = momentum buf + g, the first time buf = g.
PIPER_CLONES void sgd_plain(float* p, float* g, int64_t count, Sgd s) {
  for (int64_t i = 0; i < count; ++i) {
    const float grad = penalised(g[i], s.scale, s.weight_decay, p[i]);
    p[i] = p[i] - s.lr * grad;
    g[i] = 0;
  }
}
PIPER_CLONES void sgd_momentum(float* p, float* g, float* m, int64_t count, Sgd s) {
  const float keep = s.first ? 0.0f : s.momentum;
  for (int64_t i = 0; i < count; ++i) {
    const float grad = penalised(g[i], s.scale, s.weight_decay, p[i]);
    const float buffer = keep * m[i] + grad;
    m[i] = buffer;
    p[i] = p[i] - s.lr * buffer;
    g[i] = 0;
  }
}
PIPER_CLONES void sgd_nesterov(float* p, float* g, float* m, int64_t count, Sgd s) {
  const float keep = s.first ? 0.0f : s.momentum;
  for (int64_t i = 0; i < count; ++i) {
    const float grad = penalised(g[i], s.scale, s.weight_decay, p[i]);
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
    const float grad = penalised(g[i], a.scale, a.l2, weight);
    const float first = m[i] + a.beta1_rest * (grad - m[i]);
    const float second = v[i] * a.beta2 + a.beta2_rest * grad * grad;
    const float denominator = std::sqrt(second) / a.bias2_root + a.eps;
    m[i] = first;
    v[i] = second;
    p[i] = weight - a.step_size * first / denominator;
    g[i] = 0;
  }
}

struct Lion {
  float beta1, beta1_rest, beta2, beta2_rest, rate, decay, scale;
};

// As its authors' PyTorch code: the sign of what the momentum would become with beta1; it becomes that with beta2.
PIPER_CLONES void lion(float* p, float* g, float* m, int64_t count, Lion l) {
  for (int64_t i = 0; i < count; ++i) {
    const float grad = g[i] * l.scale;
    const float direction = m[i] * l.beta1 + grad * l.beta1_rest;
    const float sign = static_cast<float>(direction > 0) - static_cast<float>(direction < 0);
    p[i] = p[i] * l.decay - l.rate * sign;
    m[i] = m[i] * l.beta2 + grad * l.beta2_rest;
    g[i] = 0;
  }
}

struct Muon {
  float momentum, rate, decay, scale;
  bool nesterov;
};

// at::lerp: from start to end, by the form that is exact at the nearer one.
PIPER_INLINE float between(float start, float end, float weight) {
  return weight < 0.5f ? start + weight * (end - start) : end - (end - start) * (1.0f - weight);
}

// What becomes orthogonal: the momentum, with Nesterov's a step on towards it. Without a momentum the gradient.
PIPER_CLONES void muon_direction(float* direction, float* g, float* m, int64_t count, Muon u) {
  const float fresh = 1.0f - u.momentum;
  for (int64_t i = 0; i < count; ++i) {
    const float grad = g[i] * u.scale;
    const float buffer = between(m[i], grad, fresh);
    m[i] = buffer;
    direction[i] = u.nesterov ? between(grad, buffer, u.momentum) : buffer;
    g[i] = 0;
  }
}
PIPER_CLONES void plain_direction(float* direction, float* g, int64_t count, Muon u) {
  for (int64_t i = 0; i < count; ++i) {
    direction[i] = g[i] * u.scale;
    g[i] = 0;
  }
}
PIPER_CLONES void muon_step(float* p, const float* direction, int64_t count, Muon u) {
  for (int64_t i = 0; i < count; ++i) p[i] = p[i] * u.decay - u.rate * direction[i];
}

// The factor on the rate of a matrix.
double rate_of_shape(plan::RateByShape rule, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  switch (rule) {
    case plan::RateByShape::kOriginal: return std::sqrt(std::max(1.0, r / c));
    case plan::RateByShape::kMatchRmsAdamw: return 0.2 * std::sqrt(std::max(r, c));
  }
  return 1;
}

PIPER_CLONES void add(float* dst, const float* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dst[i] += src[i];
}

// A range of elements of f32.
struct Elements {
  float* parameter = nullptr;
  float* gradient = nullptr;  // cleared
  float* m = nullptr;         // momentum or first moment; nullptr where unused
  float* v = nullptr;
  int64_t count = 0;
};

// What is the same for all elements of a step.
struct Factors {
  const plan::OptimizerNumbers* optimizer = nullptr;
  plan::UpdateRule rule = plan::UpdateRule::kSgd;
  Sgd sgd;
  Adam adam;
  Lion lion;
  Muon muon;
};

// step counts from 1; lr is the scheduled rate.
Factors factors_of(const TrainingNumbers& numbers, int64_t step, double lr, float scale) {
  PIPER_CHECK(step >= 1, "step ", step);
  const plan::OptimizerNumbers& o = *numbers.optimizer;
  const plan::OptimizerInfo& info = *plan::find_optimizer(o.kind);
  const bool decoupled = info.decay == plan::WeightDecay::kDecoupled;
  const float decay = decoupled ? static_cast<float>(1 - lr * numbers.weight_decay) : 1.0f;
  const float l2 = decoupled ? 0.0f : static_cast<float>(numbers.weight_decay);
  Factors factors{&o, info.rule, {}, {}, {}, {}};
  if (info.rule == plan::UpdateRule::kSgd) {
    factors.sgd = {static_cast<float>(lr), static_cast<float>(o.momentum), l2, scale, step == 1};
    return factors;
  }
  if (info.rule == plan::UpdateRule::kLion) {
    factors.lion = {static_cast<float>(o.beta1),
                    static_cast<float>(1 - o.beta1),
                    static_cast<float>(o.beta2),
                    static_cast<float>(1 - o.beta2),
                    static_cast<float>(lr),
                    decay,
                    scale};
    return factors;
  }
  if (info.rule == plan::UpdateRule::kMuon) {
    factors.muon = {static_cast<float>(o.momentum), static_cast<float>(lr), decay, scale, o.nesterov};
    return factors;
  }
  const double bias1 = 1 - std::pow(o.beta1, static_cast<double>(step));
  const double bias2 = 1 - std::pow(o.beta2, static_cast<double>(step));
  factors.adam = {static_cast<float>(1 - o.beta1),
                  static_cast<float>(o.beta2),
                  static_cast<float>(1 - o.beta2),
                  static_cast<float>(std::sqrt(bias2)),
                  static_cast<float>(o.eps),
                  static_cast<float>(lr / bias1),
                  decay,
                  l2,
                  scale};
  return factors;
}

void apply(const Factors& factors, const Elements& e) {
  const plan::OptimizerNumbers& o = *factors.optimizer;
  switch (factors.rule) {
    case plan::UpdateRule::kAdam: return adam(e.parameter, e.gradient, e.m, e.v, e.count, factors.adam);
    case plan::UpdateRule::kLion: return lion(e.parameter, e.gradient, e.m, e.count, factors.lion);
    case plan::UpdateRule::kMuon: PIPER_CHECK(false, "Muon takes whole matrices");
    case plan::UpdateRule::kSgd: break;
  }
  if (o.momentum == 0) return sgd_plain(e.parameter, e.gradient, e.count, factors.sgd);
  if (o.nesterov) return sgd_nesterov(e.parameter, e.gradient, e.m, e.count, factors.sgd);
  return sgd_momentum(e.parameter, e.gradient, e.m, e.count, factors.sgd);
}

// A call, bound. Elements of other types than f32, and working copies, are made block by block, while they are in a
// cache.
class OptimizerCall {
 public:
  explicit OptimizerCall(const Call& call);
  void run() const;

 private:
  enum State : size_t { kParameter, kGradient, kFirstMoment, kSecondMoment, kNumStates };
  static constexpr int64_t kBlock = 1024;

  std::byte* at(State state, int64_t element) const {
    return state_[state] == nullptr ? nullptr : state_[state] + element * dtype_bytes(type_);
  }
  Elements elements(int64_t first, int64_t count) const;
  void apply_converted(const Factors& factors, int64_t first, int64_t count) const;
  void update_matrix(double rate, float scale) const;
  void write_working(int64_t first, int64_t count) const;

  TrainingNumbers numbers_;
  DType type_ = DType::kF32, working_type_ = DType::kF32;
  std::byte* state_[kNumStates] = {};  // nullptr where unused
  std::byte* working_ = nullptr;       // nullptr: none
  int64_t count_ = 0;
  at::Tensor matrix_;  // the parameter where the rule takes a whole matrix, else undefined
  const double* rate_ = nullptr;
  const int64_t* step_ = nullptr;
  const float* scale_ = nullptr;     // nullptr: 1
  const float* overflow_ = nullptr;  // nullptr: none
};

OptimizerCall::OptimizerCall(const Call& call) : numbers_(call.update_numbers()) {
  if (numbers_.optimizer->kind != call.name()) refuse("the optimizer is ", numbers_.optimizer->kind);
  if (!call.out(kParameter).defined() || !call.out(kGradient).defined()) refuse("parameter or gradient is absent");
  count_ = call.out(0).numel();
  type_ = element_type(call.out(0));
  const auto range = [&](size_t i) -> std::byte* {
    const at::Tensor values = call.out(i);
    if (!values.defined()) return nullptr;
    if (values.numel() != count_ || !values.is_contiguous()) refuse("output ", i, " is no range like the first");
    return static_cast<std::byte*>(values.mutable_data_ptr());
  };
  const plan::OptimizerInfo& info = *plan::find_optimizer(call.name());
  if (info.of_matrices) matrix_ = call.out(kParameter);
  const int num_moments = info.num_moments(*numbers_.optimizer);
  const size_t num_states = kFirstMoment + static_cast<size_t>(info.moments);
  for (size_t i = 0; i < num_states; ++i) {
    if (call.out(i).defined()) want_same_dtype(call.out(0), call.out(i));
    state_[i] = range(i);
  }
  working_ = range(num_states);
  if (working_ != nullptr) working_type_ = element_type(call.out(num_states));
  if ((state_[kFirstMoment] != nullptr) != (num_moments > 0) || (state_[kSecondMoment] != nullptr) != (num_moments > 1))
    refuse("its moments are not those of the optimizer");
  const auto value = [&](size_t i, at::ScalarType type) {
    want_dtype(call.in(i), type, "an input");
    if (call.in(i).numel() != 1) refuse("input ", i, " is no scalar");
    return call.in(i).const_data_ptr();
  };
  rate_ = static_cast<const double*>(value(0, at::kDouble));
  step_ = static_cast<const int64_t*>(value(1, at::kLong));
  if (call.num_inputs() > 2) scale_ = static_cast<const float*>(value(2, at::kFloat));
  if (call.num_inputs() > 3) overflow_ = static_cast<const float*>(value(3, at::kFloat));
}

Elements OptimizerCall::elements(int64_t first, int64_t count) const {
  const auto values = [&](State state) { return reinterpret_cast<float*>(at(state, first)); };
  return {values(kParameter), values(kGradient), values(kFirstMoment), values(kSecondMoment), count};
}

void OptimizerCall::apply_converted(const Factors& factors, int64_t first, int64_t count) const {
  float block[kNumStates][kBlock];
  for (State state : {kParameter, kGradient, kFirstMoment, kSecondMoment})
    if (const std::byte* from = at(state, first)) convert_elements(type_, from, DType::kF32, block[state], count);
  const auto values = [&](State state) { return state_[state] == nullptr ? nullptr : block[state]; };
  apply(factors, {block[kParameter], block[kGradient], values(kFirstMoment), values(kSecondMoment), count});
  for (State state : {kParameter, kGradient, kFirstMoment, kSecondMoment})
    if (std::byte* to = at(state, first)) convert_elements(DType::kF32, block[state], type_, to, count);
}

void OptimizerCall::write_working(int64_t first, int64_t count) const {
  if (working_ == nullptr) return;
  convert_elements(type_, at(kParameter, first), working_type_, working_ + first * dtype_bytes(working_type_), count);
}

void OptimizerCall::update_matrix(double rate, float scale) const {
  if (count_ == 0) return;
  const plan::OptimizerNumbers& o = *numbers_.optimizer;
  const at::Tensor direction = scratch(matrix_.sizes(), at::kFloat, matrix_);
  auto* const directions = static_cast<float*>(direction.mutable_data_ptr());
  Muon muon = factors_of(numbers_, *step_, rate, scale).muon;
  float block[kNumStates][kBlock];
  const auto read = [&](State state, int64_t first, int64_t count) {
    if (const std::byte* from = at(state, first)) convert_elements(type_, from, DType::kF32, block[state], count);
  };
  const auto write = [&](State state, int64_t first, int64_t count) {
    if (std::byte* to = at(state, first)) convert_elements(DType::kF32, block[state], type_, to, count);
  };
  for (int64_t first = 0; first < count_; first += kBlock) {
    const int64_t count = std::min(kBlock, count_ - first);
    for (const State state : {kGradient, kFirstMoment}) read(state, first, count);
    if (state_[kFirstMoment] == nullptr) plain_direction(directions + first, block[kGradient], count, muon);
    else muon_direction(directions + first, block[kGradient], block[kFirstMoment], count, muon);
    for (const State state : {kGradient, kFirstMoment}) write(state, first, count);
  }
  orthogonalise(direction, o.steps, o.eps);
  muon.rate = static_cast<float>(rate * rate_of_shape(o.adjust, matrix_.size(0), matrix_.size(1)));
  for (int64_t first = 0; first < count_; first += kBlock) {
    const int64_t count = std::min(kBlock, count_ - first);
    read(kParameter, first, count);
    muon_step(block[kParameter], directions + first, count, muon);
    write(kParameter, first, count);
    write_working(first, count);
  }
}

void OptimizerCall::run() const {
  if (overflow_ != nullptr && *overflow_ != 0) {
    std::memset(state_[kGradient], 0, static_cast<size_t>(count_ * dtype_bytes(type_)));
    return;
  }
  const double rate = *rate_ * numbers_.rate;
  const float scale = scale_ != nullptr ? *scale_ : 1.0f;
  if (matrix_.defined()) return update_matrix(rate, scale);
  const Factors factors = factors_of(numbers_, *step_, rate, scale);
  if (type_ == DType::kF32 && working_ == nullptr) return apply(factors, elements(0, count_));
  for (int64_t first = 0; first < count_; first += kBlock) {
    const int64_t count = std::min(kBlock, count_ - first);
    if (type_ == DType::kF32) apply(factors, elements(first, count));
    else apply_converted(factors, first, count);
    write_working(first, count);
  }
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_optimizer(const Call& call) {
  return make_kernel(call, [update = OptimizerCall(call)] { update.run(); });
}

void add_f32(float* dst, const float* src, int64_t count) { add(dst, src, count); }

}  // namespace piper::kernels
