// ATen calls that work element by element.
#include <cmath>
#include <limits>

#include "compiler/frontend/aten/fourier.h"
#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/formulas.h"

namespace piper::frontend::aten {
namespace {

// Operators on floats take integers too: PyTorch computes them in the default dtype.
ValueId floating(Call& c, std::string_view name) {
  const ValueId x = c.tensor(name);
  return is_floating(c.dtype(x)) ? x : c.cast(x, DType::kF32);
}

// min(max(x, low), high)
ValueId clamped(Call& c, ValueId x, double low, double high) {
  ir::ClampAttrs attrs;
  attrs.min = low;
  attrs.max = high;
  return c.op(OpKind::kClamp, {x}, attrs);
}

// (x is integer) floor(a / b); kDiv rounds down on integers.
ValueId floor_quotient(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  const DType t = promoted(c.graph(), {&a, &b});
  if (is_floating(t)) c.fail("a rounded division of floating-point tensors has no gradient and is not supported");
  return c.binary(OpKind::kDiv, a, b);
}

// scale * (x > 0 ? x : alpha * (exp(min(x, 0) * input_scale) - 1)); the minimum keeps the unused
// branch finite.
ValueId exponential_unit(Call& c, double alpha, double scale, double input_scale) {
  const ValueId x = floating(c, "self");
  const double inf = std::numeric_limits<double>::infinity();
  const ValueId low = c.binary(OpKind::kMul, clamped(c, x, -inf, 0), input_scale);
  const ValueId curve = c.binary(OpKind::kMul, c.binary(OpKind::kSub, c.op(OpKind::kExp, {low}), 1), alpha);
  const ValueId positive = c.binary(OpKind::kGt, x, 0);
  const ValueId y = c.op(OpKind::kWhere, {positive, x, curve});
  return scale != 1 ? c.binary(OpKind::kMul, y, scale) : y;
}

}  // namespace

Item unary(Call& c) { return made(c.op(c.kind(), {c.tensor("self")})); }
Item unary_float(Call& c) { return made(c.op(c.kind(), {floating(c, "self")})); }
Item log_sigmoid_forward(Call& c) {
  return Item::of_list({made(c.op(OpKind::kLogSigmoid, {c.tensor("self")})), Item::none()});
}

// The first half of an axis gated by the second.
Item glu(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size()), half = c.extent(x, d) / 2;
  const ValueId gate = c.op(OpKind::kSigmoid, {c.slice(x, d, half, 2 * half)});
  return made(c.binary(OpKind::kMul, c.slice(x, d, 0, half), gate));
}

// x > 0 ? x : weight * x, one weight per channel (axis 1).
Item prelu(Call& c) {
  const ValueId x = c.tensor("self");
  ValueId w = c.tensor("weight");
  if (c.rank(w) == 1 && c.rank(x) > 1) {
    std::vector<int64_t> shape(c.shape(x).size(), 1);
    shape[1] = c.extent(w, 0);
    w = c.reshape(w, std::move(shape));
  }
  return made(c.op(OpKind::kWhere, {c.binary(OpKind::kGt, x, 0), x, c.binary(OpKind::kMul, w, x)}));
}

Item logical_not(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.dtype(x) != DType::kBool && c.target() == "aten.bitwise_not.default")
    return c.fail("bitwise_not is supported on bool tensors");
  return made(c.op(OpKind::kLogicalNot, {c.cast(x, DType::kBool)}));
}

Item softplus(Call& c) {
  const double beta = c.real("beta");
  if (c.real("threshold") != 20) return c.fail("softplus is supported with threshold 20");
  const ValueId x = floating(c, "self");
  if (beta == 1) return made(c.op(OpKind::kSoftplus, {x}));
  return made(c.binary(OpKind::kDiv, c.op(OpKind::kSoftplus, {c.binary(OpKind::kMul, x, beta)}), beta));
}

Item leaky_relu(Call& c) {
  return made(c.op(OpKind::kLeakyRelu, {c.tensor("self")}, ir::SlopeAttrs{c.real("negative_slope")}));
}

Item gelu(Call& c) { return made(c.op(OpKind::kGelu, {c.tensor("self")}, ir::GeluAttrs{c.text("approximate")})); }

Item elu(Call& c) { return made(exponential_unit(c, c.real("alpha"), c.real("scale"), c.real("input_scale"))); }

Item mish(Call& c) {
  const ValueId x = floating(c, "self");
  return made(c.binary(OpKind::kMul, x, c.op(OpKind::kTanh, {c.op(OpKind::kSoftplus, {x})})));
}

// scale * (x > 0 ? x : alpha * (exp(x) - 1)) with the constants of Klambauer et al., Self-Normalizing Neural Networks.
Item selu(Call& c) {
  return made(exponential_unit(c, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1));
}
// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
Item celu(Call& c) { return made(exponential_unit(c, c.real("alpha"), 1, 1 / c.real("alpha"))); }

// (exp(x) + exp(-x)) / 2
Item cosh(Call& c) {
  const ValueId x = floating(c, "self");
  return made(c.binary(OpKind::kMul,
                       c.binary(OpKind::kAdd, c.op(OpKind::kExp, {x}), c.op(OpKind::kExp, {c.op(OpKind::kNeg, {x})})),
                       0.5));
}
Item tan(Call& c) {
  const ValueId x = floating(c, "self");
  return made(c.binary(OpKind::kDiv, c.op(OpKind::kSin, {x}), c.op(OpKind::kCos, {x})));
}
Item log2(Call& c) {
  return made(c.binary(OpKind::kMul, c.op(OpKind::kLog, {floating(c, "self")}), 1.4426950408889634));
}
Item log10(Call& c) {
  return made(c.binary(OpKind::kMul, c.op(OpKind::kLog, {floating(c, "self")}), 0.43429448190325182));
}
Item exp2(Call& c) {
  return made(c.op(OpKind::kExp, {c.binary(OpKind::kMul, floating(c, "self"), 0.69314718055994531)}));
}
Item masked_outside(Call& c) {  // hardshrink: x outside of [-lambd, lambd], else 0
  const ValueId x = floating(c, "self");
  const ValueId outside = c.binary(OpKind::kGt, c.op(OpKind::kAbs, {x}), c.real("lambd"));
  return made(c.op(OpKind::kWhere, {outside, x, c.scalar(0, c.dtype(x))}));
}
// x - clamp(x, -lambd, lambd)
Item softshrink(Call& c) {
  const ValueId x = floating(c, "self");
  return made(c.binary(OpKind::kSub, x, clamped(c, x, -c.real("lambd"), c.real("lambd"))));
}
// log(exp(a) + exp(b)) = max + softplus(-|a - b|); the difference of equal infinities is no number.
Item logaddexp(Call& c) {
  const ValueId a = floating(c, "self"), b = floating(c, "other");
  const ValueId difference = c.binary(OpKind::kSub, a, b);
  const ValueId distance =
      c.op(OpKind::kWhere, {c.binary(OpKind::kEq, a, b), c.scalar(0, c.dtype(difference)), difference});
  const ValueId apart = c.op(OpKind::kNeg, {c.op(OpKind::kAbs, {distance})});
  return made(c.binary(OpKind::kAdd, c.binary(OpKind::kMaximum, a, b), c.op(OpKind::kSoftplus, {apart})));
}
// self + weight * (end - self)
Item lerp(Call& c) {
  const ValueId a = c.tensor("self"), b = c.tensor("end");
  return made(c.binary(OpKind::kAdd, a,
                       c.binary(OpKind::kMul, c.binary(OpKind::kSub, b, a), c.as(c.arg("weight"), c.dtype(a)))));
}

Item hardtanh(Call& c) {
  return made(clamped_inside(c.builder(), c.tensor("self"), c.real("min_val"), c.real("max_val")));
}
Item relu6(Call& c) { return made(clamped_inside(c.builder(), c.tensor("self"), 0, 6)); }
Item hardsigmoid(Call& c) {
  const ValueId bounded = clamped_inside(c.builder(), floating(c, "self"), -3, 3);
  return made(c.binary(OpKind::kDiv, c.binary(OpKind::kAdd, bounded, 3), 6));
}
Item hardswish(Call& c) { return made(hard_swish(c.builder(), floating(c, "self"))); }
// log(u) + (x - (u - 1)) / u with u = 1 + x rounded: what the rounding took from a small x, to the first order. No
// gradient flows through it, so that the derivative is 1 / u.
Item log1p(Call& c) {
  const ValueId x = floating(c, "self"), u = c.binary(OpKind::kAdd, x, 1);
  const ValueId lost = c.binary(OpKind::kSub, x, c.binary(OpKind::kSub, u, 1));
  const ValueId small = c.binary(OpKind::kLt, c.op(OpKind::kAbs, {x}), 1);
  const ValueId rest = c.op(OpKind::kWhere, {small, c.binary(OpKind::kDiv, lost, u), c.scalar(0, c.dtype(x))});
  return made(c.binary(OpKind::kAdd, c.op(OpKind::kLog, {u}), c.op(OpKind::kDetach, {rest})));
}
// exp(x) - 1, near 0 as tanh(x / 2) (exp(x) + 1), which cancels nothing.
Item expm1(Call& c) {
  const ValueId x = floating(c, "self");
  const ValueId near = c.binary(OpKind::kLt, c.op(OpKind::kAbs, {x}), 1);
  const ValueId small = c.op(OpKind::kWhere, {near, x, c.scalar(0, c.dtype(x))});
  const ValueId product = c.binary(OpKind::kMul, c.op(OpKind::kTanh, {c.binary(OpKind::kMul, small, 0.5)}),
                                   c.binary(OpKind::kAdd, c.op(OpKind::kExp, {small}), 1));
  return made(c.op(OpKind::kWhere, {near, product, c.binary(OpKind::kSub, c.op(OpKind::kExp, {x}), 1)}));
}

Item square(Call& c) {
  const ValueId x = c.tensor("self");
  return made(is_floating(c.dtype(x)) ? c.op(OpKind::kPowScalar, {x}, ir::ExponentAttrs{2})
                                      : c.binary(OpKind::kMul, x, x));
}

Item pow_scalar(Call& c) {
  ValueId x = c.tensor("self");
  const double exponent = c.real("exponent");
  if (!is_floating(c.dtype(x))) {
    if (exponent == 1) return made(x);
    if (exponent == 2 && c.arg("exponent").kind != Item::Kind::kFloat) return made(c.binary(OpKind::kMul, x, x));
    x = c.cast(x, DType::kF32);
    if (c.arg("exponent").kind != Item::Kind::kFloat)
      return c.fail("an integer power of an integer tensor is supported for the exponents 1 and 2");
  }
  return made(c.op(OpKind::kPowScalar, {x}, ir::ExponentAttrs{exponent}));
}

// base ^ x = exp(x * log(base))
Item pow_of_scalar(Call& c) {
  const double base = c.real("self");
  if (base <= 0) return c.fail("a number to the power of a tensor is supported for positive numbers");
  if (!is_floating(c.dtype(c.tensor("exponent"))) && c.arg("self").kind != Item::Kind::kFloat)
    return c.fail("a whole number to the power of a tensor of integers is not supported; write pow(2.0, x), or cast x");
  return made(c.op(OpKind::kExp, {c.binary(OpKind::kMul, floating(c, "exponent"), std::log(base))}));
}

Item clamp(Call& c) {
  ValueId x = c.tensor("self");
  const double inf = std::numeric_limits<double>::infinity();
  if (!is_floating(c.dtype(x))) {
    if (c.has("min")) x = c.binary(OpKind::kMaximum, Item::of_tensor(x), c.arg("min"));
    if (c.has("max")) x = c.binary(OpKind::kMinimum, Item::of_tensor(x), c.arg("max"));
    return made(x);
  }
  return made(clamped(c, x, c.has("min") ? c.real("min") : -inf, c.has("max") ? c.real("max") : inf));
}

Item arithmetic(Call& c) { return made(c.binary(c.kind(), c.arg("self"), c.arg("other"))); }

// A bound that is a tensor: at a tie the gradient goes to what is bounded, whole.
ValueId bounded_by(Call& c, OpKind kind, ValueId x, const Item& bound) {
  const ValueId b = c.as(bound, c.dtype(x));
  return c.op(OpKind::kWhere, {c.binary(kind == OpKind::kMaximum ? OpKind::kLt : OpKind::kGt, x, b), b, x});
}
Item bounded(Call& c) {
  const ValueId x = c.cast(c.tensor("self"),
                           promoted(c.graph(), {&c.arg("self"), &c.arg(c.kind() == OpKind::kMaximum ? "min" : "max")}));
  return made(bounded_by(c, c.kind(), x, c.arg(c.kind() == OpKind::kMaximum ? "min" : "max")));
}
Item clamp_by_tensors(Call& c) {
  const auto is_number = [&](const Item& x) { return !x.is_tensor() || (c.rank(x.tensor) == 0 && c.known(x.tensor)); };
  const Item &min = c.arg("min"), &max = c.arg("max");
  ValueId x = c.tensor("self");
  const DType own = c.dtype(x);
  if (is_floating(own) && is_number(min) && is_number(max)) return clamp(c);
  if (c.has("min")) x = bounded_by(c, OpKind::kMaximum, c.cast(x, promoted(c.graph(), {&c.arg("self"), &min})), min);
  if (c.has("max")) x = bounded_by(c, OpKind::kMinimum, c.cast(x, promoted(c.graph(), {&c.arg("self"), &max})), max);
  return made(x);
}

// x log(y), 0 where x is 0 whatever y is.
Item xlogy(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  const DType t = promoted(c.graph(), {&a, &b});
  const DType to = is_floating(t) ? t : DType::kF32;
  const ValueId x = c.as(a, to), y = c.as(b, to);
  const ValueId zero = c.binary(OpKind::kEq, x, 0);
  const ValueId safe = c.op(OpKind::kWhere, {zero, c.scalar(1, to), y});
  return made(c.binary(OpKind::kMul, x, c.op(OpKind::kLog, {safe})));
}

Item add_or_sub(Call& c) {
  Item other = c.arg("other");
  const Item& alpha = c.arg("alpha");
  if (alpha.of_step() != 1) other = made(c.binary(OpKind::kMul, other, alpha));
  const DType t = promoted(c.graph(), {&c.arg("self"), &other});
  if (t == DType::kBool && c.kind() == OpKind::kAdd)  // on bool, + is "or"
    return made(c.op(OpKind::kLogicalOr, {c.as(c.arg("self"), t), c.as(other, t)}));
  return made(c.binary(c.kind(), c.arg("self"), other));
}

Item rsub(Call& c) {
  Item self = c.arg("self");
  if (c.arg("alpha").of_step() != 1) self = made(c.binary(OpKind::kMul, self, c.arg("alpha")));
  return made(c.binary(OpKind::kSub, c.arg("other"), self));
}

Item divide(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  const DType t = promoted(c.graph(), {&a, &b});
  const DType to = is_floating(t) ? t : DType::kF32;
  return made(c.op(OpKind::kDiv, {c.as(a, to), c.as(b, to)}));
}

Item divide_rounded(Call& c) {
  if (!c.has("rounding_mode")) return divide(c);
  const ValueId floor = floor_quotient(c);
  if (c.text("rounding_mode") == "floor") return made(floor);
  // Towards zero: one more where the quotient is negative and has a rest.
  const ValueId exact = c.binary(OpKind::kMul, made(floor), c.arg("other"));
  const ValueId rest = c.binary(OpKind::kNe, made(exact), c.arg("self"));
  const ValueId up = c.op(OpKind::kLogicalAnd, {c.binary(OpKind::kLt, floor, 0), rest});
  return made(c.binary(OpKind::kAdd, floor, c.cast(up, c.dtype(floor))));
}
Item floor_divide(Call& c) { return made(floor_quotient(c)); }

// a - floor(a / b) * b
Item remainder(Call& c) {
  const Item quotient = made(floor_quotient(c));
  const Item whole = made(c.binary(OpKind::kMul, quotient, c.arg("other")));
  return made(c.binary(OpKind::kSub, c.arg("self"), whole));
}

Item addcmul(Call& c) {
  ValueId product = c.binary(c.kind(), c.tensor("tensor1"), c.tensor("tensor2"));
  if (c.real("value") != 1) product = c.binary(OpKind::kMul, product, c.real("value"));
  return made(c.binary(OpKind::kAdd, c.tensor("self"), product));
}

Item logical(Call& c) {
  return made(c.op(c.kind(), {c.as(c.arg("self"), DType::kBool), c.as(c.arg("other"), DType::kBool)}));
}

Item bitwise(Call& c) {
  if (promoted(c.graph(), {&c.arg("self"), &c.arg("other")}) != DType::kBool)
    return c.fail("bitwise operators are supported on bool tensors");
  return logical(c);
}

Item where(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  const DType t = promoted(c.graph(), {&a, &b});
  return made(c.op(OpKind::kWhere, {c.cast(c.tensor("condition"), DType::kBool), c.as(a, t), c.as(b, t)}));
}

Item masked_fill(Call& c) {
  const ValueId x = c.tensor("self");
  const DType t = c.dtype(x);
  return made(c.op(OpKind::kWhere, {c.cast(c.tensor("mask"), DType::kBool), c.as(c.arg("value"), t), x}));
}

Item to_copy(Call& c) {
  if (c.arg("dtype").text == "torch.complex64") return complex_of_real(c);
  const ValueId x = c.tensor("self");
  return made(c.cast(x, c.dtype_or("dtype", c.dtype(x))));
}
Item type_as(Call& c) { return made(c.cast(c.tensor("self"), c.dtype(c.tensor("other")))); }

}  // namespace piper::frontend::aten
