#include "compiler/autodiff/rules/expression.h"

#include <utility>

#include "compiler/autodiff/rules/folded_products.h"
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/ir/attrs_text.h"

namespace piper::autodiff::rules {

struct Expression::Node {
  enum class Kind : uint8_t { kNothing, kNumber, kGradient, kOperand, kResult, kOp } kind = Kind::kNothing;
  double number = 0;
  size_t operand = 0;
  OpKind op = OpKind::kAdd;
  ir::Attrs attrs;
  std::vector<Expression> operands;
};

namespace {

using Node = Expression::Node;
using Kind = Node::Kind;

bool is_number(const Expression& x) { return x.node().kind == Kind::kNumber; }

bool is_same(const Node& a, const Node& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.operand != b.operand || a.op != b.op || a.operands.size() != b.operands.size())
    return false;
  if (a.number != b.number || !ir::equal(a.attrs, b.attrs)) return false;
  for (size_t i = 0; i < a.operands.size(); ++i)
    if (!is_same(a.operands[i].node(), b.operands[i].node())) return false;
  return true;
}

class Emitter {
 public:
  explicit Emitter(const RuleContext& ctx) : ctx_(ctx) {}

  ValueId emit(const Expression& x) {
    const Node& node = x.node();
    switch (node.kind) {
      case Kind::kNothing: return {};
      case Kind::kNumber: return scalar(ctx_, node.number, operand_type(ctx_, 0).dtype);
      case Kind::kGradient: return grad(ctx_);
      case Kind::kOperand: return ctx_.op.operands[node.operand];
      case Kind::kResult: return ctx_.op.results[0];
      case Kind::kOp: break;
    }
    for (const auto& [made, value] : made_)
      if (is_same(*made, node)) return value;
    const ValueId value = operation(node);
    made_.emplace_back(&node, value);
    return value;
  }

 private:
  ValueId operation(const Node& node) {
    const std::vector<Expression>& x = node.operands;
    if (node.op == OpKind::kMul && is_number(x[1])) return scale(ctx_, emit(x[0]), x[1].node().number);
    if (node.op == OpKind::kMul && is_number(x[0])) return scale(ctx_, emit(x[1]), x[0].node().number);
    std::vector<ValueId> operands;
    for (const Expression& operand : x) operands.push_back(emit(operand));
    if (node.op == OpKind::kMul) return multiply(ctx_, operands[0], operands[1]);
    if (node.op == OpKind::kDiv) return divide(ctx_, operands[0], operands[1]);
    if (node.op == OpKind::kNeg) return negate(ctx_, operands[0]);
    return ctx_.b.add1(node.op, operands, node.attrs);
  }

  const RuleContext& ctx_;
  std::vector<std::pair<const Node*, ValueId>> made_;
};

}  // namespace

Expression::Expression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
Expression::Expression(double number)
    : node_(std::make_shared<const Node>(Node{Kind::kNumber, number, 0, {}, {}, {}})) {}
Expression Expression::nothing() { return Expression(std::make_shared<const Node>()); }
Expression Expression::gradient() {
  return Expression(std::make_shared<const Node>(Node{Kind::kGradient, 0, 0, {}, {}, {}}));
}
Expression Expression::operand(size_t index) {
  return Expression(std::make_shared<const Node>(Node{Kind::kOperand, 0, index, {}, {}, {}}));
}
Expression Expression::result() {
  return Expression(std::make_shared<const Node>(Node{Kind::kResult, 0, 0, {}, {}, {}}));
}
Expression Expression::of(OpKind kind, std::vector<Expression> operands, ir::Attrs attrs) {
  return Expression(std::make_shared<const Node>(Node{Kind::kOp, 0, 0, kind, std::move(attrs), std::move(operands)}));
}

std::vector<ValueId> emit(const RuleContext& ctx, const std::vector<Expression>& expressions) {
  Emitter emitter(ctx);
  std::vector<ValueId> values;
  for (const Expression& x : expressions) values.push_back(emitter.emit(x));
  return values;
}

Expression operator-(const Expression& x) { return Expression::of(OpKind::kNeg, {x}); }
Expression operator+(const Expression& a, const Expression& b) { return Expression::of(OpKind::kAdd, {a, b}); }
Expression operator-(const Expression& a, const Expression& b) { return Expression::of(OpKind::kSub, {a, b}); }
Expression operator*(const Expression& a, const Expression& b) { return Expression::of(OpKind::kMul, {a, b}); }
Expression operator/(const Expression& a, const Expression& b) { return Expression::of(OpKind::kDiv, {a, b}); }
Expression operator==(const Expression& a, const Expression& b) { return Expression::of(OpKind::kEq, {a, b}); }
Expression operator!=(const Expression& a, const Expression& b) { return Expression::of(OpKind::kNe, {a, b}); }
Expression operator<(const Expression& a, const Expression& b) { return Expression::of(OpKind::kLt, {a, b}); }
Expression operator<=(const Expression& a, const Expression& b) { return Expression::of(OpKind::kLe, {a, b}); }
Expression operator>(const Expression& a, const Expression& b) { return Expression::of(OpKind::kGt, {a, b}); }
Expression operator>=(const Expression& a, const Expression& b) { return Expression::of(OpKind::kGe, {a, b}); }
Expression operator&(const Expression& a, const Expression& b) { return Expression::of(OpKind::kLogicalAnd, {a, b}); }
Expression operator|(const Expression& a, const Expression& b) { return Expression::of(OpKind::kLogicalOr, {a, b}); }

Expression where(const Expression& condition, const Expression& a, const Expression& b) {
  return Expression::of(OpKind::kWhere, {condition, a, b});
}
Expression abs(const Expression& x) { return Expression::of(OpKind::kAbs, {x}); }
Expression sign(const Expression& x) { return Expression::of(OpKind::kSign, {x}); }
Expression isnan(const Expression& x) { return Expression::of(OpKind::kIsNan, {x}); }
Expression pow(const Expression& x, double exponent) {
  return Expression::of(OpKind::kPowScalar, {x}, ir::ExponentAttrs{exponent});
}
Expression polygamma(int64_t order, const Expression& x) {
  return Expression::of(OpKind::kPolygamma, {x}, ir::PolygammaAttrs{order});
}
Expression tanh_backward(const Expression& g, const Expression& y) {
  return Expression::of(OpKind::kTanhBackward, {g, y});
}
Expression sigmoid_backward(const Expression& g, const Expression& y) {
  return Expression::of(OpKind::kSigmoidBackward, {g, y});
}
Expression silu_backward(const Expression& g, const Expression& x) {
  return Expression::of(OpKind::kSiluBackward, {g, x});
}

}  // namespace piper::autodiff::rules
