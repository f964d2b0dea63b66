// Cross entropy and negative log-likelihood, own kernels: one pass a row forward, one backward, no
// probabilities stored between. Losses are sums over the targets that count; a mean is the plan's
// business. Row sums are taken in 16 lanes and rows added up in double, both in a fixed order.
//
// With smoothing e, C classes, class weights w (1 where absent), x the logits of a row and t its target:
//   loss = (1 - e) w_t (lse - x_t) + e / C sum_c w_c (lse - x_c)          as torch.nn.functional.cross_entropy
#include <ATen/Dispatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/element_type.h"
#include "runtime/kernels/lanes.h"
#include "runtime/kernels/own_part.h"
#include "schemas/plan/convert_elements.h"

namespace piper::kernels {
namespace {

// Runs what follows with scalar_t, the element type of the tensor.
#define PIPER_DISPATCH(tensor, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, (tensor).scalar_type(), "losses", [&] { __VA_ARGS__; })

// T: float or double; kBytes: of a vector.
template <int kBytes, class T>
PIPER_INLINE T row_max(const T* x, int64_t s, int64_t count) {
  const T lowest = -std::numeric_limits<T>::infinity();
  Lanes<T, kBytes> top, values;
  for (auto& part : top.part) part = part + lowest;
  for (int64_t i = 0; i < count; i += kLanes) {
    load_lanes(values, x, s, i, count, lowest);
    for (int p = 0; p < top.kParts; ++p) top.part[p] = values.part[p] > top.part[p] ? values.part[p] : top.part[p];
  }
  T result = lowest;
  for (int lane = 0; lane < kLanes; ++lane) result = top[lane] > result ? top[lane] : result;
  return result;
}

// sum_c exp(x_c - top)
template <int kBytes, class T>
PIPER_INLINE T row_exp_sum(const T* x, int64_t s, int64_t count, T top) {
  Lanes<T, kBytes> sum, values;
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load_lanes(values, x, s, i, count, top);
    for (int p = 0; p < sum.kParts; ++p) {
      values.part[p] -= top;
      exp_vector(values.part[p]);
      sum.part[p] += values.part[p];
    }
  }
  if (whole < count) {
    load_lanes(values, x, s, whole, count, top);
    for (auto& part : values.part) {
      part -= top;
      exp_vector(part);
    }
    for (int lane = 0; lane < count - whole; ++lane) sum.part[lane / sum.kEach][lane % sum.kEach] += values[lane];
  }
  return sum_lanes(sum);
}

template <int kBytes, class T>
PIPER_INLINE T row_lse_in(const T* x, int64_t s, int64_t count) {
  const T top = row_max<kBytes>(x, s, count);
  return std::isinf(top) ? top : top + std::log(row_exp_sum<kBytes>(x, s, count, top));
}
// sum_c w_c x_c, w null: 1; weights are ws apart, 0 where one number stands for all.
template <int kBytes, class T>
PIPER_INLINE T weighted_sum_in(const T* x, int64_t s, const T* w, int64_t ws, int64_t count) {
  Lanes<T, kBytes> sum, values, weights;
  for (auto& part : weights.part) part = part + T(1);
  for (int64_t i = 0; i < count; i += kLanes) {
    load_lanes(values, x, s, i, count, T(0));
    if (w != nullptr) load_lanes(weights, w, ws, i, count, T(0));
    for (int p = 0; p < sum.kParts; ++p) sum.part[p] += weights.part[p] * values.part[p];
  }
  return sum_lanes(sum);
}
// dx_c = total exp(x_c - lse) - even w_c; the target's part is subtracted by the caller.
template <int kBytes, class T>
PIPER_INLINE void row_gradient_in(const T* x, int64_t s, T* dx, int64_t ds, const T* w, int64_t ws, int64_t count,
                                  T lse, T total, T even) {
  Lanes<T, kBytes> values, weights;
  for (auto& part : weights.part) part = part + T(1);
  for (int64_t i = 0; i < count; i += kLanes) {
    load_lanes(values, x, s, i, count, lse);
    if (even != 0 && w != nullptr) load_lanes(weights, w, ws, i, count, T(0));
    for (int p = 0; p < values.kParts; ++p) {
      values.part[p] -= lse;
      exp_vector(values.part[p]);
      values.part[p] = values.part[p] * total - weights.part[p] * even;
    }
    store_lanes(dx, ds, i, count, values);
  }
}

// Side by side is the usual case: the stride known to be 1 is what lets the loop run in vectors.
template <int kBytes, class T>
PIPER_INLINE T row_lse_body(const T* x, int64_t s, int64_t count) {
  return s == 1 ? row_lse_in<kBytes>(x, 1, count) : row_lse_in<kBytes>(x, s, count);
}
template <int kBytes, class T>
PIPER_INLINE T weighted_sum_body(const T* x, int64_t s, const T* w, int64_t ws, int64_t count) {
  return s == 1 && ws == 1 ? weighted_sum_in<kBytes>(x, 1, w, 1, count) : weighted_sum_in<kBytes>(x, s, w, ws, count);
}
template <int kBytes, class T>
PIPER_INLINE void row_gradient_body(const T* x, int64_t s, T* dx, int64_t ds, const T* w, int64_t ws, int64_t count,
                                    T lse, T total, T even) {
  if (s == 1 && ds == 1 && ws == 1) row_gradient_in<kBytes>(x, 1, dx, 1, w, 1, count, lse, total, even);
  else row_gradient_in<kBytes>(x, s, dx, ds, w, ws, count, lse, total, even);
}
#define PIPER_ROWS(T)                                                                                                \
  PIPER_BY_WIDTH(T, row_lse_##T, (const T* x, int64_t s, int64_t count), (x, s, count), row_lse_body<kBytes>)        \
  PIPER_BY_WIDTH(T, weighted_sum_##T, (const T* x, int64_t s, const T* w, int64_t ws, int64_t count),                \
                 (x, s, w, ws, count), weighted_sum_body<kBytes>)                                                    \
  PIPER_BY_WIDTH(                                                                                                    \
      void, row_gradient_##T,                                                                                        \
      (const T* x, int64_t s, T* dx, int64_t ds, const T* w, int64_t ws, int64_t count, T lse, T total, T even),     \
      (x, s, dx, ds, w, ws, count, lse, total, even), row_gradient_body<kBytes>)                                     \
  T row_lse(const T* x, int64_t s, int64_t count) { return row_lse_##T(x, s, count); }                               \
  T weighted_sum(const T* x, int64_t s, const T* w, int64_t ws, int64_t count) {                                     \
    return weighted_sum_##T(x, s, w, ws, count);                                                                     \
  }                                                                                                                  \
  void row_gradient(const T* x, int64_t s, T* dx, int64_t ds, const T* w, int64_t ws, int64_t count, T lse, T total, \
                    T even) {                                                                                        \
    row_gradient_##T(x, s, dx, ds, w, ws, count, lse, total, even);                                                  \
  }
PIPER_ROWS(float)
PIPER_ROWS(double)
#undef PIPER_ROWS
PIPER_BY_WIDTH(float, max_of_block, (const float* x, int64_t count), (x, 1, count), row_max<kBytes>)
PIPER_BY_WIDTH(float, exp_sum_of_block, (const float* x, int64_t count, float top), (x, 1, count, top),
               row_exp_sum<kBytes>)

// Rows of bf16 and f16 are computed in f32, a block at a time: no copy of the logits.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
concept Half = std::is_same_v<T, at::BFloat16> || std::is_same_v<T, at::Half>;
constexpr int64_t kBlock = 1024;

template <Half T>
constexpr DType kHalfType = std::is_same_v<T, at::Half> ? DType::kF16 : DType::kBF16;

template <Half T>
void widen(const T* x, int64_t s, float* to, int64_t count) {
  if (s == 1) return convert_elements(kHalfType<T>, x, DType::kF32, to, count);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(x[i * s]);
}
// Calls body(first class of the block, its values, how many).
template <Half T, class F>
void for_each_block(const T* x, int64_t s, int64_t count, F&& body) {
  float block[kBlock];
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t part = std::min(kBlock, count - i);
    widen(x + i * s, s, block, part);
    body(i, static_cast<const float*>(block), part);
  }
}

template <Half T>
float row_lse(const T* x, int64_t s, int64_t count) {
  float top = -std::numeric_limits<float>::infinity(), sum = 0;
  for_each_block(x, s, count,
                 [&](int64_t, const float* values, int64_t n) { top = std::max(top, max_of_block(values, n)); });
  if (std::isinf(top)) return top;
  for_each_block(x, s, count,
                 [&](int64_t, const float* values, int64_t n) { sum += exp_sum_of_block(values, n, top); });
  return top + std::log(sum);
}
template <Half T>
float weighted_sum(const T* x, int64_t s, const T* w, int64_t ws, int64_t count) {
  float sum = 0, weights[kBlock];
  for_each_block(x, s, count, [&](int64_t i, const float* values, int64_t n) {
    if (w != nullptr) widen(w + i * ws, ws, weights, n);
    sum += weighted_sum(values, 1, w != nullptr ? weights : nullptr, 1, n);
  });
  return sum;
}
template <Half T>
void row_gradient(const T* x, int64_t s, T* dx, int64_t ds, const T* w, int64_t ws, int64_t count, float lse,
                  float total, float even) {
  float weights[kBlock], gradient[kBlock];
  for_each_block(x, s, count, [&](int64_t i, const float* values, int64_t n) {
    if (w != nullptr) widen(w + i * ws, ws, weights, n);
    row_gradient(values, 1, gradient, 1, w != nullptr ? weights : nullptr, 1, n, lse, total, even);
    if (ds == 1) return convert_elements(DType::kF32, gradient, kHalfType<T>, dx + i, n);
    for (int64_t c = 0; c < n; ++c) dx[(i + c) * ds] = static_cast<T>(gradient[c]);
  });
}

// Walks the rows of (scores [N, C, d..], target [N, d..]) in the target's row-major order.
class ClassRows {
 public:
  ClassRows(const at::Tensor& scores, const at::Tensor& target) {
    num_classes_ = scores.size(1);
    class_stride_ = scores.stride(1);
    for (int64_t axis = 0; axis < target.dim(); ++axis) {
      const int64_t scores_axis = axis == 0 ? 0 : axis + 1;
      axes_.push_back({target.size(axis), scores.stride(scores_axis), target.stride(axis)});
      count_ *= target.size(axis);
    }
  }
  int64_t count() const { return count_; }
  int64_t num_classes() const { return num_classes_; }
  int64_t class_stride() const { return class_stride_; }
  int64_t scores_offset(int64_t row) const { return offset(row, &Axis::scores); }
  int64_t target_offset(int64_t row) const { return offset(row, &Axis::target); }

 private:
  struct Axis {
    int64_t extent, scores, target;
  };
  int64_t offset(int64_t row, int64_t Axis::* stride) const {
    int64_t at = 0;
    for (size_t axis = axes_.size(); axis-- > 1;) {
      at += row % axes_[axis].extent * (axes_[axis].*stride);
      row /= axes_[axis].extent;
    }
    return axes_.empty() ? at : at + row * (axes_[0].*stride);
  }
  std::vector<Axis> axes_;
  int64_t count_ = 1, num_classes_ = 0, class_stride_ = 1;
};

struct Targets {
  at::Tensor target, weight;  // weight may be undefined
  int64_t ignore_index;
  int64_t weight_stride = 1;
  // The class of a row, or -1 where it does not count.
  int64_t of(int64_t offset, int64_t num_classes) const {
    const int64_t t = target.const_data_ptr<int64_t>()[offset];
    if (t == ignore_index) return -1;
    if (t < 0 || t >= num_classes) refuse("target ", t, " is outside of 0..", num_classes - 1);
    return t;
  }
  template <class T>
  const T* weights() const {
    return weight.defined() ? weight.const_data_ptr<T>() : nullptr;
  }
  template <class T>
  T of_class(int64_t c) const {
    return weight.defined() ? weights<T>()[c * weight_stride] : T(1);
  }
};

Targets check_targets(const Call& call, const at::Tensor& target, const at::Tensor& weight, const at::Tensor& scores) {
  want_dtype(target, at::kLong, "the target");
  if (scores.defined()) {
    if (scores.dim() < 2 || target.dim() != scores.dim() - 1) refuse("scores of rank ", scores.dim());
    for (int64_t axis = 0; axis < target.dim(); ++axis)
      if (target.size(axis) != scores.size(axis == 0 ? 0 : axis + 1))
        refuse("a target of ", target.sizes(), " for scores of ", scores.sizes());
    if (!at::isFloatingType(scores.scalar_type()))
      refuse("element type ", toString(scores.scalar_type()), " is not supported");
    if (weight.defined()) {
      want_shape(weight, {scores.size(1)}, "the class weight");
      want_same_dtype(weight, scores);
    }
  }
  if (weight.defined() && weight.dim() != 1) refuse("a class weight of rank ", weight.dim());
  return {target, weight, call.attr_int("ignore_index"), weight.defined() ? weight.stride(0) : 1};
}

// A sum into a scalar of any floating-point type.
void put_scalar(const at::Tensor& out, double value, bool accumulate) {
  PIPER_DISPATCH(out, {
    scalar_t& cell = *out.mutable_data_ptr<scalar_t>();
    cell = static_cast<scalar_t>(accumulate ? static_cast<double>(cell) + value : value);
  });
}
double get_scalar(const at::Tensor& t) {
  double value = 0;
  PIPER_DISPATCH(t, value = static_cast<double>(*t.const_data_ptr<scalar_t>()));
  return value;
}
void want_scalar(const at::Tensor& t, const char* what) {
  if (t.numel() != 1 || !at::isFloatingType(t.scalar_type())) refuse(what, " is not a floating scalar");
}

// Sum of the class weights; the number of classes where there are none.
template <class T>
double sum_of_weights(const Targets& targets, int64_t num_classes) {
  if (!targets.weight.defined()) return static_cast<double>(num_classes);
  double sum = 0;
  for (int64_t c = 0; c < num_classes; ++c) sum += static_cast<double>(targets.of_class<T>(c));
  return sum;
}

template <class T>
double cross_entropy(const ClassRows& rows, const at::Tensor& logits, const Targets& targets, double smoothing,
                     float* lse) {
  const int64_t num_classes = rows.num_classes(), s = rows.class_stride();
  const T* data = logits.const_data_ptr<T>();
  const double even = smoothing / static_cast<double>(num_classes);
  const double all_weights = sum_of_weights<T>(targets, num_classes);
  double sum = 0;
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t target = targets.of(rows.target_offset(row), num_classes);
    if (target < 0) {
      if (lse != nullptr) lse[row] = 0;
      continue;
    }
    const T* x = data + rows.scores_offset(row);
    const Computed<T> row_value = row_lse(x, s, num_classes);
    if (lse != nullptr) lse[row] = static_cast<float>(row_value);
    sum += (1 - smoothing) * static_cast<double>(targets.of_class<T>(target)) *
           (static_cast<double>(row_value) - static_cast<double>(x[target * s]));
    if (smoothing != 0)
      sum += even * (static_cast<double>(row_value) * all_weights -
                     static_cast<double>(weighted_sum(x, s, targets.weights<T>(), targets.weight_stride, num_classes)));
  }
  return sum;
}

// What each place says of its classes: stats [rows, places, 2], log-sum-exp and the target's logit or 0.
template <class T>
void row_statistics(const ClassRows& rows, const at::Tensor& logits, const Targets& targets, int64_t place,
                    const OwnPart& own, const at::Tensor& stats) {
  using C = Computed<T>;
  const int64_t s = rows.class_stride();
  stats.zero_();
  const int64_t places = stats.size(1);
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t target = targets.of(rows.target_offset(row), own.whole);
    if (target < 0) continue;
    const T* x = logits.const_data_ptr<T>() + rows.scores_offset(row);
    C* const here = stats.mutable_data_ptr<C>() + (row * places + place) * 2;
    here[0] = row_lse(x, s, own.count);
    if (own.has(target)) here[1] = static_cast<C>(x[(target - own.first) * s]);
  }
}

// The sum of the rows' losses of what all places say of them.
template <class C>
double merged_loss(const ClassRows& rows, const at::Tensor& stats, const Targets& targets, int64_t whole,
                   const at::Tensor& lse) {
  const int64_t count = rows.count(), places = stats.size(1);
  const C* const all = stats.const_data_ptr<C>();
  double sum = 0;
  for (int64_t row = 0; row < count; ++row) {
    C merged = 0, own = 0;
    if (targets.of(rows.target_offset(row), whole) >= 0) {
      C top = -std::numeric_limits<C>::infinity(), exps = 0;
      const C* const given = all + row * places * 2;
      for (int64_t p = 0; p < places; ++p) top = std::max(top, given[p * 2]);
      for (int64_t p = 0; p < places; ++p) {
        exps += std::isinf(top) ? C(0) : std::exp(given[p * 2] - top);
        own += given[p * 2 + 1];
      }
      merged = std::isinf(top) ? top : top + std::log(exps);
      sum += static_cast<double>(merged) - static_cast<double>(own);
    }
    if (lse.defined()) lse.mutable_data_ptr<C>()[row] = merged;
  }
  return sum;
}

// The gradient of a place's own classes, by the log-sum-exp of all; of what is none zero.
template <class T>
void own_gradient(const ClassRows& rows, const ClassRows& out_rows, const at::Tensor& logits, const at::Tensor& dlogits,
                  const Targets& targets, double g, const at::Tensor& lse, const OwnPart& own) {
  using C = Computed<T>;
  const int64_t extent = rows.num_classes(), s = rows.class_stride(), ds = out_rows.class_stride();
  const C* const all = lse.const_data_ptr<C>();
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t target = targets.of(rows.target_offset(row), own.whole);
    const T* x = logits.const_data_ptr<T>() + rows.scores_offset(row);
    T* dx = dlogits.mutable_data_ptr<T>() + out_rows.scores_offset(row);
    const int64_t begin = target < 0 ? 0 : own.count;
    const bool here = target >= 0 && own.has(target);
    const T at_target = here ? x[(target - own.first) * s] : T(0);  // dlogits may be the logits themselves
    if (target >= 0)
      row_gradient(x, s, dx, ds, static_cast<const T*>(nullptr), 1, own.count, all[row], static_cast<C>(g), C(0));
    if (here) {
      const C value = std::exp(static_cast<C>(at_target) - all[row]);
      dx[(target - own.first) * ds] = static_cast<T>(value * static_cast<C>(g) - static_cast<C>(g));
    }
    for (int64_t c = begin; c < extent; ++c) dx[c * ds] = 0;
  }
}

template <class T>
void cross_entropy_gradient(const ClassRows& rows, const ClassRows& out_rows, const at::Tensor& logits,
                            const at::Tensor& dlogits, const Targets& targets, double smoothing, double g,
                            const float* lse) {
  const int64_t num_classes = rows.num_classes(), s = rows.class_stride(), ds = out_rows.class_stride();
  const double even = smoothing / static_cast<double>(num_classes);
  const double all_weights = sum_of_weights<T>(targets, num_classes);
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t target = targets.of(rows.target_offset(row), num_classes);
    const T* x = logits.const_data_ptr<T>() + rows.scores_offset(row);
    T* dx = dlogits.mutable_data_ptr<T>() + out_rows.scores_offset(row);
    if (target < 0) {
      for (int64_t c = 0; c < num_classes; ++c) dx[c * ds] = 0;
      continue;
    }
    // The saved statistic is f32: f64 takes its own.
    using C = Computed<T>;
    const C row_value = std::is_same_v<T, double> ? row_lse(x, s, num_classes) : static_cast<C>(lse[row]);
    const double own = (1 - smoothing) * static_cast<double>(targets.of_class<T>(target));
    [[maybe_unused]] const T at_target = x[target * s];  // dlogits may be the logits themselves
    row_gradient(x, s, dx, ds, targets.weights<T>(), targets.weight_stride, num_classes, row_value,
                 static_cast<C>(g * (own + even * all_weights)), static_cast<C>(g * even));
    if constexpr (Half<T>) {  // from the operand, so that it is rounded once
      const float value = static_cast<float>(at_target), weight = static_cast<float>(targets.of_class<T>(target));
      float gradient = 0;
      row_gradient(&value, 1, &gradient, 1, &weight, 1, 1, row_value, static_cast<C>(g * (own + even * all_weights)),
                   static_cast<C>(g * even));
      dx[target * ds] = static_cast<T>(gradient - static_cast<C>(g * own));
    } else {
      dx[target * ds] -= static_cast<T>(g * own);
    }
  }
}

// `like`: scores in parts, whose statistics of f64 are f64.
void want_rows(const at::Tensor& lse, const at::Tensor& target, const at::Tensor& like = {}) {
  const bool wide = like.defined() && like.scalar_type() == at::kDouble;
  want_dtype(lse, wide ? at::kDouble : at::kFloat, "the row statistics");
  if (lse.numel() != target.numel() || !lse.is_contiguous())
    refuse("row statistics of ", lse.sizes(), " for ", target.numel(), " rows");
}

}  // namespace

namespace {

void want_statistics(const at::Tensor& stats, const at::Tensor& target, const at::Tensor& logits) {
  want_dtype(stats, logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat, "the rows' statistics");
  if (stats.dim() != 3 || stats.size(0) != target.numel() || stats.size(2) != 2 || !stats.is_contiguous())
    refuse("statistics of ", stats.sizes(), " for ", target.numel(), " rows");
}
void want_plain(const Call& call, const Targets& targets) {
  if (targets.weight.defined() || call.attr_double("label_smoothing") != 0)
    refuse("a part of the classes with weights or smoothing");
}

std::unique_ptr<PreparedKernel> bind_merged_loss(const Call& call, const at::Tensor& logits, const Targets& targets,
                                                 const at::Tensor& stats) {
  const at::Tensor sum = call.out(0), lse = call.out(1);
  want_plain(call, targets);
  want_statistics(stats, targets.target, logits);
  if (lse.defined()) want_rows(lse, targets.target, logits);
  return make_kernel(call, [targets, sum, lse, stats, rows = ClassRows(logits, targets.target),
                            whole = call.attr_int("whole"), accumulate = call.accumulate()] {
    AT_DISPATCH_FLOATING_TYPES(stats.scalar_type(), "losses", [&] {
      put_scalar(sum, merged_loss<scalar_t>(rows, stats, targets, whole, lse), accumulate);
    });
  });
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_row_lse(const Call& call) {
  const at::Tensor logits = call.in(0), place = call.in(2), stats = call.out(0);
  const Targets targets = check_targets(call, call.in(1), {}, logits);
  want_statistics(stats, targets.target, logits);
  return make_kernel(call, [logits, targets, place, stats, rows = ClassRows(logits, targets.target),
                            part = PlaceOfPart(call, place, logits.size(1))] {
    const int64_t at = place.const_data_ptr<int64_t>()[0];
    if (at < 0 || at >= stats.size(1)) refuse("place ", at, " of ", stats.size(1));
    PIPER_DISPATCH(logits, row_statistics<scalar_t>(rows, logits, targets, at, part.now(), stats));
  });
}

std::unique_ptr<PreparedKernel> bind_cross_entropy_sum(const Call& call) {
  const at::Tensor logits = call.in(0), sum = call.out(0), lse = call.out(1);
  const Targets targets = check_targets(call, call.in(1), call.in(2), logits);
  const double smoothing = call.attr_double("label_smoothing");
  want_scalar(sum, "the output");
  if (const at::Tensor stats = call.in(3); stats.defined()) return bind_merged_loss(call, logits, targets, stats);
  if (lse.defined()) want_rows(lse, targets.target);
  return make_kernel(call, [logits, targets, smoothing, sum, lse, rows = ClassRows(logits, targets.target),
                            accumulate = call.accumulate()] {
    float* saved = lse.defined() ? lse.mutable_data_ptr<float>() : nullptr;
    PIPER_DISPATCH(logits,
                   put_scalar(sum, cross_entropy<scalar_t>(rows, logits, targets, smoothing, saved), accumulate));
  });
}

std::unique_ptr<PreparedKernel> bind_cross_entropy_backward(const Call& call) {
  const at::Tensor g = call.in(0), logits = call.in(1), lse = call.in(3), dlogits = call.out(0);
  const Targets targets = check_targets(call, call.in(2), call.in(4), logits);
  const double smoothing = call.attr_double("label_smoothing");
  want_scalar(g, "the gradient");
  if (const at::Tensor place = call.in(5); place.defined()) {
    want_plain(call, targets);
    want_rows(lse, targets.target, logits);
    want_shape(dlogits, logits.sizes(), "the output");
    want_same_dtype(dlogits, logits);
    return make_kernel(
        call, [g, logits, lse, dlogits, targets, rows = ClassRows(logits, targets.target),
               out_rows = ClassRows(dlogits, targets.target), part = PlaceOfPart(call, place, logits.size(1))] {
          PIPER_DISPATCH(
              logits, own_gradient<scalar_t>(rows, out_rows, logits, dlogits, targets, get_scalar(g), lse, part.now()));
        });
  }
  want_rows(lse, targets.target);
  want_shape(dlogits, logits.sizes(), "the output");
  want_same_dtype(dlogits, logits);
  return make_kernel(call, [g, logits, lse, dlogits, targets, smoothing, rows = ClassRows(logits, targets.target),
                            out_rows = ClassRows(dlogits, targets.target)]() mutable {
    const float* saved = lse.const_data_ptr<float>();
    PIPER_DISPATCH(logits, cross_entropy_gradient<scalar_t>(rows, out_rows, logits, dlogits, targets, smoothing,
                                                            get_scalar(g), saved));
  });
}

std::unique_ptr<PreparedKernel> bind_cross_entropy_count(const Call& call) {
  const Targets targets = check_targets(call, call.in(0), call.in(1), {});
  want_scalar(call.out(0), "the output");
  if (targets.weight.defined()) want_scalar(targets.weight.select(0, 0), "the class weight");
  return make_kernel(call, [targets, count = call.out(0), accumulate = call.accumulate()] {
    const at::Tensor list = dense(targets.target);
    const int64_t* t = list.const_data_ptr<int64_t>();
    const int64_t classes = targets.weight.defined() ? targets.weight.numel() : std::numeric_limits<int64_t>::max();
    PIPER_DISPATCH(targets.weight.defined() ? targets.weight : count, {
      double sum = 0;
      for (int64_t i = 0; i < list.numel(); ++i) {
        if (t[i] == targets.ignore_index) continue;
        if (t[i] < 0 || t[i] >= classes) refuse("target ", t[i], " is not a class");
        sum += static_cast<double>(targets.of_class<scalar_t>(t[i]));
      }
      put_scalar(count, sum, accumulate);
    });
  });
}

namespace {
template <class T>
double nll(const ClassRows& rows, const at::Tensor& scores, const Targets& targets) {
  double sum = 0;
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t target = targets.of(rows.target_offset(row), rows.num_classes());
    if (target < 0) continue;
    const T value = scores.const_data_ptr<T>()[rows.scores_offset(row) + target * rows.class_stride()];
    sum -= static_cast<double>(targets.of_class<T>(target)) * static_cast<double>(value);
  }
  return sum;
}
template <class T>
void nll_gradient(const ClassRows& rows, const at::Tensor& dx, const Targets& targets, double g) {
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t target = targets.of(rows.target_offset(row), rows.num_classes());
    if (target < 0) continue;
    dx.mutable_data_ptr<T>()[rows.scores_offset(row) + target * rows.class_stride()] =
        static_cast<T>(-g * static_cast<double>(targets.of_class<T>(target)));
  }
}
}  // namespace

std::unique_ptr<PreparedKernel> bind_nll_sum(const Call& call) {
  const at::Tensor scores = call.in(0), sum = call.out(0);
  const Targets targets = check_targets(call, call.in(1), call.in(2), scores);
  want_scalar(sum, "the output");
  return make_kernel(call,
                     [scores, targets, sum, rows = ClassRows(scores, targets.target), accumulate = call.accumulate()] {
                       PIPER_DISPATCH(scores, put_scalar(sum, nll<scalar_t>(rows, scores, targets), accumulate));
                     });
}

std::unique_ptr<PreparedKernel> bind_nll_backward(const Call& call) {
  const at::Tensor g = call.in(0), dx = call.out(0);
  want_scalar(g, "the gradient");
  want_shape(dx, call.attr_ints("shape"), "the output");
  const Targets targets = check_targets(call, call.in(1), call.in(2), dx);
  return make_kernel(call, [g, dx, targets, rows = ClassRows(dx, targets.target)]() mutable {
    dx.zero_();
    PIPER_DISPATCH(dx, nll_gradient<scalar_t>(rows, dx, targets, get_scalar(g)));
  });
}

}  // namespace piper::kernels
