// Constant element-wise operators. Transcendental functions of f32 are computed in double and
// rounded once, which is at least as near as any f32 library.
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::eval {
namespace {

using ir::OpKind;

constexpr std::nullopt_t never = std::nullopt;

// By the column `value` of schemas/plan/elementwise.def; nullopt for operators that it does not have or not fold.
std::optional<double> value_of(OpKind kind, [[maybe_unused]] double x) {
  switch (kind) {
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative) \
  case OpKind::kernel: return value;
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)
#include "schemas/plan/elementwise.def"
    default: return std::nullopt;
  }
}
std::optional<double> value_of(OpKind kind, [[maybe_unused]] double a, [[maybe_unused]] double b) {
  switch (kind) {
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative)
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b) \
  case OpKind::kernel: return value;
#include "schemas/plan/elementwise.def"
    default: return std::nullopt;
  }
}

// Integer arithmetic wraps, as in ATen.
template <class T>
T wrap_neg(T v) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(v));
  else return -v;
}

template <class T>
T integer_power(T base, int64_t exponent) {
  std::make_unsigned_t<T> result = 1, factor = static_cast<std::make_unsigned_t<T>>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return static_cast<T>(result);
}

// false where the dtype does not carry the operator.
template <class T>
bool unary_element(const Call& c, T v, T& out) {
  switch (c.kind) {
    case OpKind::kNeg: out = wrap_neg(v); return true;
    case OpKind::kAbs:
      if constexpr (std::is_floating_point_v<T>) out = std::fabs(v);
      else out = v < 0 ? wrap_neg(v) : v;
      return true;
    case OpKind::kSign: out = v != v ? v : static_cast<T>((v > 0) - (v < 0)); return true;
    case OpKind::kRelu: out = v <= 0 ? T(0) : v; return true;
    case OpKind::kClamp: {
      const auto& a = c.as<ir::ClampAttrs>();
      // Bounds may be infinite; an integer is compared as double, exact below 2^53.
      out = v;
      if (static_cast<double>(v) < a.min) out = static_cast<T>(a.min);
      if (static_cast<double>(out) > a.max) out = static_cast<T>(a.max);
      return true;
    }
    case OpKind::kPowScalar: {
      double e = c.as<ir::ExponentAttrs>().exponent;
      if constexpr (std::is_integral_v<T>) {
        if (e < 0 || e != std::floor(e)) return false;
        out = integer_power(v, static_cast<int64_t>(e));
      } else {
        out = e == 2 ? v * v : static_cast<T>(std::pow(static_cast<double>(v), e));
      }
      return true;
    }
    default: break;
  }
  const std::optional<double> value = value_of(c.kind, static_cast<double>(v));
  if (value) out = static_cast<T>(*value);
  return value.has_value();
}

template <class T>
bool arithmetic(OpKind kind, T a, T b, T& out) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (kind) {
      case OpKind::kAdd: out = static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); return true;
      case OpKind::kSub: out = static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); return true;
      case OpKind::kMul: out = static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); return true;
      case OpKind::kDiv:
        if (b == 0) return false;
        if (b == static_cast<T>(-1)) {
          out = wrap_neg(a);
          return true;
        }
        out = static_cast<T>(a / b);
        if (a % b != 0 && ((a < 0) != (b < 0))) --out;
        return true;
      default: break;
    }
  } else {
    switch (kind) {
      case OpKind::kAdd: out = a + b; return true;
      case OpKind::kSub: out = a - b; return true;
      case OpKind::kMul: out = a * b; return true;
      case OpKind::kDiv: out = a / b; return true;
      case OpKind::kMaximum:
      case OpKind::kMinimum: break;
      default: {
        const std::optional<double> value = value_of(kind, a, b);
        if (value) out = static_cast<T>(*value);
        return value.has_value();
      }
    }
    if (a != a || b != b) {  // maximum and minimum propagate NaN
      out = std::numeric_limits<T>::quiet_NaN();
      return true;
    }
  }
  out = kind == OpKind::kMaximum ? (a > b ? a : b) : (a < b ? a : b);
  return true;
}

template <class T>
bool compare(OpKind kind, T a, T b) {
  switch (kind) {
    case OpKind::kEq: return a == b;
    case OpKind::kNe: return a != b;
    case OpKind::kLt: return a < b;
    case OpKind::kLe: return a <= b;
    case OpKind::kGt: return a > b;
    case OpKind::kGe: return a >= b;
    case OpKind::kLogicalAnd: return a != 0 && b != 0;
    default: return a != 0 || b != 0;  // logical_or
  }
}

Evaluated where(const Call& c) {
  const ir::TensorType& to = c.results[0];
  Buffer y(to);
  const uint8_t* condition = elements<uint8_t>(c.x[0]);
  std::array<Shape, 3> strides;
  for (size_t i = 0; i < 3; ++i) strides[i] = ir::broadcast_strides(c.x[i].type.shape, to.shape);
  with_size(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *a = elements<T>(c.x[1]), *b = elements<T>(c.x[2]);
    T* out = y.data<T>();
    for_each<3>(to.shape, strides, [&](int64_t i, const auto& at) { out[i] = condition[at[0]] ? a[at[1]] : b[at[2]]; });
  });
  return Tensors{y.done()};
}

}  // namespace

Evaluated unary(const Call& c) {
  const ConstantTensor& x = c.x[0];
  const ir::TensorType& to = c.results[0];
  Buffer y(to);
  bool done = true;
  bool known = with_type(x.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = elements<T>(x);
    int64_t count = to.elements();
    if (c.kind == OpKind::kLogicalNot || c.kind == OpKind::kIsNan) {
      uint8_t* out = y.data<uint8_t>();
      for (int64_t i = 0; i < count; ++i) out[i] = c.kind == OpKind::kIsNan ? from[i] != from[i] : from[i] == 0;
      return;
    }
    T* out = y.data<T>();
    for (int64_t i = 0; i < count && done; ++i) done = unary_element(c, from[i], out[i]);
  });
  if (!known || !done) return std::nullopt;
  return Tensors{y.done()};
}

Evaluated binary(const Call& c) {
  if (c.kind == OpKind::kWhere) return where(c);
  const ir::TensorType& to = c.results[0];
  Buffer y(to);
  std::array<Shape, 2> strides{ir::broadcast_strides(c.x[0].type.shape, to.shape),
                               ir::broadcast_strides(c.x[1].type.shape, to.shape)};
  bool done = true;
  bool known = with_type(c.x[0].type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *a = elements<T>(c.x[0]), *b = elements<T>(c.x[1]);
    if (to.dtype == DType::kBool) {  // comparisons and logic; arithmetic on bool is refused before
      uint8_t* out = y.data<uint8_t>();
      for_each<2>(to.shape, strides, [&](int64_t i, const auto& at) { out[i] = compare(c.kind, a[at[0]], b[at[1]]); });
      return;
    }
    T* out = y.data<T>();
    for_each<2>(to.shape, strides,
                [&](int64_t i, const auto& at) { done = done && arithmetic(c.kind, a[at[0]], b[at[1]], out[i]); });
  });
  if (!known || !done) return std::nullopt;
  return Tensors{y.done()};
}

}  // namespace piper::frontend::eval
