// Derivatives as formulas: what the last columns of schemas/plan/elementwise.def are written in. An expression is a
// tree of operators over the operands of an operator, its result and the result's gradient; emit() appends its
// operators to the graph, from left to right, each once however often it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "compiler/autodiff/autodiff.h"

namespace piper::autodiff::rules {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kTiny = std::numeric_limits<double>::epsilon();

class Expression {
 public:
  Expression(double number);  // not explicit: 1 - x * x
  static Expression nothing();
  static Expression gradient();
  static Expression operand(size_t index);
  static Expression result();
  static Expression of(ir::OpKind kind, std::vector<Expression> operands, ir::Attrs attrs = ir::NoAttrs{});

  struct Node;
  const Node& node() const { return *node_; }

 private:
  explicit Expression(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

// The values of some expressions: invalid for `nothing`. Products, quotients and negations are those of
// folded_products.h; numbers are constants of the type of operand 0.
std::vector<ir::ValueId> emit(const RuleContext& ctx, const std::vector<Expression>& expressions);

Expression operator-(const Expression& x);
Expression operator+(const Expression& a, const Expression& b);
Expression operator-(const Expression& a, const Expression& b);
Expression operator*(const Expression& a, const Expression& b);
Expression operator/(const Expression& a, const Expression& b);
Expression operator==(const Expression& a, const Expression& b);
Expression operator!=(const Expression& a, const Expression& b);
Expression operator<(const Expression& a, const Expression& b);
Expression operator<=(const Expression& a, const Expression& b);
Expression operator>(const Expression& a, const Expression& b);
Expression operator>=(const Expression& a, const Expression& b);
Expression operator&(const Expression& a, const Expression& b);  // of conditions
Expression operator|(const Expression& a, const Expression& b);

Expression where(const Expression& condition, const Expression& a, const Expression& b);
Expression abs(const Expression& x);
Expression sign(const Expression& x);
Expression isnan(const Expression& x);
Expression pow(const Expression& x, double exponent);
Expression polygamma(int64_t order, const Expression& x);
Expression tanh_backward(const Expression& g, const Expression& y);
Expression sigmoid_backward(const Expression& g, const Expression& y);
Expression silu_backward(const Expression& g, const Expression& x);
// The operators of elementwise.def by their names.
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative) \
  inline Expression name(const Expression& x) { return Expression::of(ir::OpKind::kernel, {x}); }
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)     \
  inline Expression name(const Expression& a, const Expression& b) { \
    return Expression::of(ir::OpKind::kernel, {a, b});               \
  }
#include "schemas/plan/elementwise.def"

}  // namespace piper::autodiff::rules
