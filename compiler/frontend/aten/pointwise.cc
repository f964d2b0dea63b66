// ATen calls that work element by element.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/frontend/aten/fourier.h"
#include "compiler/frontend/aten/integers.h"
#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/aten/trained_values.h"
#include "compiler/frontend/exact_integers.h"
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

// floor(a / b); kDiv rounds down on integers.
ValueId floor_quotient(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  return c.binary(is_floating(promoted(c.graph(), {&a, &b})) ? OpKind::kFloorDivide : OpKind::kDiv, a, b);
}
// For integers, towards zero: one more than rounded down where the quotient is negative and has a rest.
ValueId truncated_quotient(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  const ValueId floor = floor_quotient(c);
  const ValueId rest = c.binary(OpKind::kNe, made(c.binary(OpKind::kMul, made(floor), b)), a);
  const ValueId up = c.op(OpKind::kLogicalAnd, {c.binary(OpKind::kLt, floor, 0), rest});
  return c.binary(OpKind::kAdd, floor, c.cast(up, c.dtype(floor)));
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

double largest_finite(DType t) {
  if (t == DType::kF16) return 65504;
  if (t == DType::kBF16) return 0x1.fep127;
  return t == DType::kF32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

}  // namespace

Item unary(Call& c) { return made(c.op(c.kind(), {c.tensor("self")})); }
Item unary_float(Call& c) { return made(c.op(c.kind(), {floating(c, "self")})); }
// Whole numbers are their own.
Item unary_step(Call& c) {
  const ValueId x = c.tensor("self");
  return made(is_floating(c.dtype(x)) ? c.op(c.kind(), {x}) : x);
}
// On integers in the default dtype, as PyTorch's.
Item binary_float(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  if (is_floating(promoted(c.graph(), {&a, &b}))) return made(c.binary(c.kind(), a, b));
  return made(c.op(c.kind(), {c.as(a, DType::kF32), c.as(b, DType::kF32)}));
}
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
    Extents shape(c.shape(x).size(), 1);
    shape[1] = c.extent(w, 0);
    w = c.reshape(w, std::move(shape));
  }
  return made(c.op(OpKind::kWhere, {c.binary(OpKind::kGt, x, 0), x, c.binary(OpKind::kMul, w, x)}));
}

Item logical_not(Call& c) { return made(c.op(OpKind::kLogicalNot, {c.cast(c.tensor("self"), DType::kBool)})); }

// softplus(beta x) / beta, and x where beta x is above the threshold. That of the operator is 20, from where on f32 has
// no difference between the two.
Item softplus(Call& c) {
  const double beta = c.real("beta"), threshold = c.real("threshold");
  const ValueId x = floating(c, "self");
  // Above 88 its exponential overflows, with no number for a gradient.
  if (threshold > (c.dtype(x) == DType::kF64 ? 20 : 88))
    return c.fail("softplus is supported with thresholds up to 88, in f64 up to 20");
  const ValueId scaled = beta == 1 ? x : c.binary(OpKind::kMul, x, beta);
  ValueId y = c.op(OpKind::kSoftplus, {scaled});
  if (beta != 1) y = c.binary(OpKind::kDiv, y, beta);
  if (threshold < 20) y = c.op(OpKind::kWhere, {c.binary(OpKind::kGt, scaled, threshold), x, y});
  return made(y);
}

// Outside of training the mean of the slopes.
Item rrelu(Call& c) {
  if (c.flag("training"))
    return c.refuse("P0321", "rrelu in training draws random slopes that no seed of the step fixes");
  ir::SlopeAttrs attrs;
  attrs.slope = (c.real("lower") + c.real("upper")) / 2;
  return made(c.op(OpKind::kLeakyRelu, {c.tensor("self")}, attrs));
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
// self + weight * (end - self)
Item lerp(Call& c) {
  const ValueId a = c.tensor("self"), b = c.tensor("end");
  return made(c.binary(OpKind::kAdd, a,
                       c.binary(OpKind::kMul, c.binary(OpKind::kSub, b, a), c.as(c.arg("weight"), c.dtype(a)))));
}

Item hardtanh(Call& c) {
  const ValueId x = c.tensor("self");
  const double low = c.real("min_val"), high = c.real("max_val");
  if (!is_exact(c.dtype(x), low) || !is_exact(c.dtype(x), high))
    return c.fail("hardtanh of integers that do not reach its bounds");
  return made(clamped_inside(c.builder(), x, low, high));
}
Item relu6(Call& c) { return made(clamped_inside(c.builder(), c.tensor("self"), 0, 6)); }
Item hardsigmoid(Call& c) {
  const ValueId bounded = clamped_inside(c.builder(), floating(c, "self"), -3, 3);
  return made(c.binary(OpKind::kDiv, c.binary(OpKind::kAdd, bounded, 3), 6));
}
Item hardswish(Call& c) { return made(hard_swish(c.builder(), floating(c, "self"))); }

// Outside of [eps, 1 - eps] at its ends, without a gradient.
Item logit(Call& c) {
  ValueId x = floating(c, "self");
  if (c.has("eps")) {  // comparisons, which let NaN through
    const double low = c.real("eps"), high = 1 - low;
    const DType t = c.dtype(x);
    x = c.op(OpKind::kWhere, {c.binary(OpKind::kLt, x, low), c.scalar(low, t), x});
    x = c.op(OpKind::kWhere, {c.binary(OpKind::kGt, x, high), c.scalar(high, t), x});
  }
  return made(c.op(OpKind::kLogit, {x}));
}
Item polygamma(Call& c) {
  const ValueId x = floating(c, "self");
  const int64_t n = c.integer("n");
  if (n < 0) return c.fail("there is no polygamma function of a negative order");
  return made(n == 0 ? c.op(OpKind::kDigamma, {x}) : c.op(OpKind::kPolygamma, {x}, ir::PolygammaAttrs{n}));
}
// (1 + erf(x / sqrt(2))) / 2
Item ndtr(Call& c) {
  const ValueId inner = c.binary(OpKind::kDiv, floating(c, "self"), std::sqrt(2.0));
  return made(c.binary(OpKind::kMul, c.binary(OpKind::kAdd, c.op(OpKind::kErf, {inner}), 1), 0.5));
}
// By a number: degrees and radians.
Item deg2rad(Call& c) { return made(c.binary(OpKind::kMul, floating(c, "self"), 0.017453292519943295)); }
Item rad2deg(Call& c) { return made(c.binary(OpKind::kMul, floating(c, "self"), 57.29577951308232)); }

Item isinf(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return made(c.op(OpKind::kNe, {x, x}));
  return made(c.binary(OpKind::kEq, c.op(OpKind::kAbs, {x}), std::numeric_limits<double>::infinity()));
}
Item is_infinity(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return made(c.op(OpKind::kNe, {x, x}));
  const double inf = std::numeric_limits<double>::infinity();
  return made(c.binary(OpKind::kEq, x, c.kind() == OpKind::kNeg ? -inf : inf));
}
// The sign of zeros and of no numbers counts too.
Item signbit(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return made(c.binary(OpKind::kLt, x, 0));
  return made(c.binary(OpKind::kLt, c.op(OpKind::kCopysign, {c.scalar(1, c.dtype(x)), x}), 0));
}
// For a real number: pi where it is negative, else 0; no gradient.
Item angle(Call& c) {
  const ValueId x = c.op(OpKind::kDetach, {floating(c, "self")});
  const DType t = c.dtype(x);
  const ValueId half =
      c.op(OpKind::kWhere, {c.binary(OpKind::kLt, x, 0), c.scalar(std::numbers::pi, t), c.scalar(0, t)});
  return made(c.op(OpKind::kWhere, {c.op(OpKind::kIsNan, {x}), x, half}));
}
// What is not finite becomes a number, without a gradient.
Item nan_to_num(Call& c) {
  const ValueId x = c.tensor("self");
  const DType t = c.dtype(x);
  if (!is_floating(t)) return made(x);
  const double inf = std::numeric_limits<double>::infinity(), most = largest_finite(t);
  ValueId y = c.op(OpKind::kWhere, {c.op(OpKind::kIsNan, {x}), c.scalar(c.has("nan") ? c.real("nan") : 0, t), x});
  y = c.op(OpKind::kWhere, {c.binary(OpKind::kEq, x, inf), c.scalar(c.has("posinf") ? c.real("posinf") : most, t), y});
  return made(c.op(OpKind::kWhere,
                   {c.binary(OpKind::kEq, x, -inf), c.scalar(c.has("neginf") ? c.real("neginf") : -most, t), y}));
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
    const Item& number = c.arg("exponent");
    const bool whole = number.is_tensor() ? !is_floating(c.dtype(number.tensor)) : number.kind != Item::Kind::kFloat;
    if (whole && exponent < 0) return c.fail("a negative power of integers");
    if (whole) return made(integer_power(c, x, whole_number(exponent)));
    x = c.cast(x, DType::kF32);
  }
  return made(c.op(OpKind::kPowScalar, {x}, ir::ExponentAttrs{exponent}));
}

Item pow(Call& c) {
  const Item& exponent = c.arg("exponent");
  const bool one = exponent.is_tensor() && c.rank(exponent.tensor) == 0 && c.dtype(exponent.tensor) != DType::kF64;
  if (!exponent.is_tensor() || (one && c.known(exponent.tensor))) return pow_scalar(c);
  if (const DType t = promoted(c.graph(), {&c.arg("self"), &exponent}); !is_floating(t))
    return made(integer_power(c, c.as(c.arg("self"), t), c.as(exponent, t)));
  return made(c.binary(OpKind::kPow, c.arg("self"), exponent));
}
// In f64, whatever its operands are.
Item float_power(Call& c) {
  return made(c.op(OpKind::kPow, {c.as(c.arg("self"), DType::kF64), c.as(c.arg("exponent"), DType::kF64)}));
}

Item pow_of_scalar(Call& c) {
  const double base = c.real("self");
  if (const DType t = promoted(c.graph(), {&c.arg("self"), &c.arg("exponent")}); !is_floating(t))
    return made(integer_power(c, c.as(c.arg("self"), t), c.as(c.arg("exponent"), t)));
  const ValueId x = floating(c, "exponent");
  return made(c.op(OpKind::kPow, {c.scalar(base, c.dtype(x)), x}));
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
  if (c.has("min")) {
    x = c.cast(x, promoted(c.graph(), {&c.arg("self"), &min}));
    Item least = min;
    // Where both bounds are equal, neither has a gradient from below.
    if (least.is_tensor() && c.has("max") && depends_on_trained(c.graph(), least.tensor))
      least.tensor =
          c.op(OpKind::kWhere, {c.binary(OpKind::kLt, min, max), min.tensor, c.op(OpKind::kDetach, {min.tensor})});
    x = bounded_by(c, OpKind::kMaximum, x, least);
  }
  if (c.has("max")) x = bounded_by(c, OpKind::kMinimum, c.cast(x, promoted(c.graph(), {&c.arg("self"), &max})), max);
  return made(x);
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

Item divide_rounded(Call& c) {
  if (!c.has("rounding_mode")) return binary_float(c);
  if (c.text("rounding_mode") == "floor") return made(floor_quotient(c));
  if (!is_floating(promoted(c.graph(), {&c.arg("self"), &c.arg("other")}))) return made(truncated_quotient(c));
  return made(c.op(OpKind::kTrunc, {binary_float(c).tensor}));
}
Item floor_divide(Call& c) { return made(floor_quotient(c)); }

// For integers a - q * b, q being the quotient rounded as the operator says.
Item remainder(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  if (is_floating(promoted(c.graph(), {&a, &b}))) return made(c.binary(c.kind(), a, b));
  const Item quotient = made(c.kind() == OpKind::kFmod ? truncated_quotient(c) : floor_quotient(c));
  return made(c.binary(OpKind::kSub, a, made(c.binary(OpKind::kMul, quotient, b))));
}
// fmax and fmin: integers have no NaN to leave out.
Item number_or_other(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  if (is_floating(promoted(c.graph(), {&a, &b}))) return made(c.binary(c.kind(), a, b));
  return made(c.binary(c.kind() == OpKind::kFmax ? OpKind::kMaximum : OpKind::kMinimum, a, b));
}

// self * 2^other
Item ldexp(Call& c) {
  return made(c.binary(OpKind::kMul, c.arg("self"), made(c.op(OpKind::kExp2, {floating(c, "other")}))));
}

// Rounded once, also in 16 bits.
Item addcmul(Call& c) {
  const DType own = c.dtype(c.tensor("self"));
  const auto wide = [&](const char* name) {
    return is_half(own) ? c.cast(c.tensor(name), DType::kF32) : c.tensor(name);
  };
  ValueId product = c.binary(c.kind(), wide("tensor1"), wide("tensor2"));
  if (c.real("value") != 1) product = c.binary(OpKind::kMul, product, c.real("value"));
  const ValueId sum = c.binary(OpKind::kAdd, wide("self"), product);
  return made(is_half(own) ? c.cast(sum, own) : sum);
}

Item logical(Call& c) {
  return made(c.op(c.kind(), {c.as(c.arg("self"), DType::kBool), c.as(c.arg("other"), DType::kBool)}));
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
