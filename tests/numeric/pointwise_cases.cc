// Cases of element-wise operators, of one, two and three operands.
#include <limits>
#include <utility>
#include <vector>

#include "tests/numeric/rule_cases.h"

namespace piper::numeric {

using ir::OpKind;
using ir::ValueId;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

RuleCase unary(OpKind kind, double low, double high, ir::Attrs attrs = ir::NoAttrs{}, const std::string& variant = "") {
  return {std::string(op_name(kind)) + variant, [=](CaseBuilder& c) {
            const ValueId x = c.parameter({2, 3, 4}, low, high);
            return c.loss_of({c.b.add1(kind, {x}, attrs)});
          }};
}

RuleCase binary(OpKind kind, std::vector<int64_t> a_shape, std::vector<int64_t> b_shape,
                const std::string& variant = "", bool positive = false) {
  return {std::string(op_name(kind)) + variant, [=](CaseBuilder& c) {
            // Apart, so that no element lies near a tie or a pole.
            const ValueId a = positive ? c.parameter(a_shape, 0.1, 3) : c.spaced(a_shape),
                          b = c.parameter(b_shape, 0.5, 1.5);
            return c.loss_of({c.b.add1(kind, {a, b})});
          }};
}

}  // namespace

void add_pointwise_cases(std::vector<RuleCase>& cases) {
  cases.push_back({"cast", [](CaseBuilder& c) {
                     const ValueId x = c.parameter({3, 4});
                     const ValueId narrow = c.b.cast(x, DType::kF32);
                     return c.loss_of({c.b.add1(OpKind::kTanh, {c.b.cast(narrow, c.dtype())})});
                   }});
  cases.back().no_differences = "a cast to f32 rounds more than the step";
  for (OpKind kind : {OpKind::kNeg, OpKind::kLogSigmoid, OpKind::kSoftplus}) cases.push_back(unary(kind, -2, 2));
  cases.push_back(unary(OpKind::kSoftplus, 15, 25, ir::NoAttrs{}, " around its threshold"));
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative) \
  cases.push_back(unary(OpKind::kernel, low, high));
#define PIPER_UNARY_STEP(kernel, name, onnx, precision, low, high, value)
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)
#include "schemas/plan/elementwise.def"
  // Operators with a kink at zero, on both sides of it.
  for (OpKind kind : {OpKind::kAbs, OpKind::kRelu}) {
    cases.push_back(unary(kind, 0.1, 2, ir::NoAttrs{}, " positive"));
    cases.push_back(unary(kind, -2, -0.1, ir::NoAttrs{}, " negative"));
  }
  cases.push_back(unary(OpKind::kLeakyRelu, 0.1, 2, ir::SlopeAttrs{0.2}, " positive"));
  cases.push_back(unary(OpKind::kLeakyRelu, -2, -0.1, ir::SlopeAttrs{0.2}, " negative"));
  cases.push_back(unary(OpKind::kGelu, -2, 2, ir::GeluAttrs{"none"}, " erf"));
  cases.push_back(unary(OpKind::kGelu, -2, 2, ir::GeluAttrs{"tanh"}, " tanh"));
  for (double exponent : {0.0, 1.0, 2.0, 3.0, 0.5, -1.5})
    cases.push_back(unary(OpKind::kPowScalar, 0.5, 2, ir::ExponentAttrs{exponent}, " " + std::to_string(exponent)));
  cases.push_back(unary(OpKind::kPowScalar, -2, -0.5, ir::ExponentAttrs{3.0}, " of negative numbers"));
  for (int64_t n : {1, 2})
    cases.push_back(unary(OpKind::kPolygamma, 1, 3, ir::PolygammaAttrs{n}, " " + std::to_string(n)));
  cases.push_back(unary(OpKind::kClamp, -2, 2, ir::ClampAttrs{-0.7, 0.9}));
  cases.push_back(unary(OpKind::kClamp, -2, 2, ir::ClampAttrs{-0.7, kInfinity}, " below"));
  cases.push_back(unary(OpKind::kClamp, -2, 2, ir::ClampAttrs{-kInfinity, 0.9}, " above"));
  cases.push_back({"clamp at its bounds", [](CaseBuilder& c) {
                     const ValueId x = c.parameter_of({3}, {-1.0, 0.0, 1.0});
                     return c.loss_of({c.b.add1(OpKind::kClamp, {x}, ir::ClampAttrs{-1, 1})});
                   }});
  cases.back().no_differences = "not differentiable at the bounds; ATen passes the gradient";

  std::vector<std::pair<OpKind, bool>> binaries;  // and whether operand 0 is to be positive
  for (OpKind kind : {OpKind::kAdd, OpKind::kSub, OpKind::kMul, OpKind::kDiv, OpKind::kMaximum, OpKind::kMinimum})
    binaries.emplace_back(kind, false);
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative)
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b) binaries.emplace_back(OpKind::kernel, true);
#define PIPER_BINARY_STEP(kernel, name, precision, value)
#include "schemas/plan/elementwise.def"
  for (const auto& [kind, positive] : binaries) {
    cases.push_back(binary(kind, {2, 3}, {2, 3}, "", positive));
    cases.push_back(binary(kind, {2, 3, 4}, {3, 1}, " broadcast b", positive));
    cases.push_back(binary(kind, {4}, {2, 1, 4}, " broadcast a", positive));
    cases.push_back(binary(kind, {2, 1}, {3}, " broadcast both", positive));
    cases.push_back(binary(kind, {}, {2, 3}, " scalar", positive));
  }
  cases.push_back({"mul of a value with itself", [](CaseBuilder& c) {
                     const ValueId x = c.parameter({2, 3});
                     return c.loss_of({c.b.add1(OpKind::kMul, {x, x})});
                   }});
  cases.push_back({"mul and div by constants", [](CaseBuilder& c) {
                     const ValueId x = c.parameter({2, 3});
                     const ValueId half = c.b.add1(OpKind::kMul, {x, c.b.scalar(0.5, c.dtype())});
                     const ValueId third = c.b.add1(OpKind::kDiv, {half, c.b.scalar(3.0, c.dtype())});
                     return c.loss_of({third});
                   }});
  for (OpKind kind : {OpKind::kMaximum, OpKind::kMinimum}) {
    cases.push_back({std::string(op_name(kind)) + " with ties", [=](CaseBuilder& c) {
                       const ValueId a = c.parameter_of({4}, {1, 2, 3, 4}), b = c.parameter_of({4}, {1, 3, 2, 4});
                       return c.loss_of({c.b.add1(kind, {a, b})});
                     }});
    cases.back().no_differences = "not differentiable at ties; ATen gives half to each side";
  }
  cases.push_back({"where", [](CaseBuilder& c) {
                     const ValueId a = c.parameter({2, 3}), b = c.parameter({3});
                     return c.loss_of({c.b.add1(OpKind::kWhere, {c.bools({2, 3}), a, b})});
                   }});
  cases.push_back({"where with a broadcast condition", [](CaseBuilder& c) {
                     const ValueId a = c.parameter({2, 1}), b = c.parameter({});
                     return c.loss_of({c.b.add1(OpKind::kWhere, {c.bools({2, 3}), a, b})});
                   }});
  cases.push_back({"a chain with shared values", [](CaseBuilder& c) {
                     const ValueId x = c.parameter({3, 3}), y = c.b.add1(OpKind::kTanh, {x});
                     const ValueId z = c.b.add1(OpKind::kMul, {y, c.b.add1(OpKind::kExp, {y})});
                     return c.loss_of({z, y, c.b.add1(OpKind::kSub, {x, z})});
                   }});
}

}  // namespace piper::numeric
