// Derivatives of the operators of schemas/plan/elementwise.def, as their rows write them.
#include "compiler/autodiff/rules/expression.h"
#include "compiler/autodiff/rules/folded_products.h"
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {
namespace {

using E = Expression;

[[maybe_unused]] const E none = E::nothing();  // `none` of a row

std::vector<ValueId> unary(const RuleContext& ctx, E (*derivative)(const E& g, const E& x, const E& y)) {
  return emit(ctx, {derivative(E::gradient(), E::operand(0), E::result())});
}

// Each ends in a sum over the axes along which the operand was broadcast.
std::vector<ValueId> binary(const RuleContext& ctx, E (*of_a)(const E& g, const E& a, const E& b, const E& y),
                            E (*of_b)(const E& g, const E& a, const E& b, const E& y)) {
  const E g = E::gradient(), a = E::operand(0), b = E::operand(1), y = E::result();
  std::vector<ValueId> gradients = emit(ctx, {ctx.needs[0] ? of_a(g, a, b, y) : E::nothing(),  //
                                              ctx.needs[1] ? of_b(g, a, b, y) : E::nothing()});
  for (size_t i = 0; i < 2; ++i)
    if (ctx.needs[i])
      gradients[i] =
          gradients[i].valid() ? to_operand(ctx, gradients[i], i) : zeros(ctx, ir::TensorType(operand_type(ctx, i)));
  return gradients;
}

}  // namespace

#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative)                                    \
  std::vector<ValueId> name(const RuleContext& ctx) {                                                               \
    return unary(                                                                                                   \
        ctx, [](const E& g, [[maybe_unused]] const E& x, [[maybe_unused]] const E& y) -> E { return derivative; }); \
  }
#define PIPER_UNARY_STEP(kernel, name, onnx, precision, low, high, value)
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)                                  \
  std::vector<ValueId> name(const RuleContext& ctx) {                                             \
    return binary(                                                                                \
        ctx,                                                                                      \
        []([[maybe_unused]] const E& g, [[maybe_unused]] const E& a, [[maybe_unused]] const E& b, \
           [[maybe_unused]] const E& y) -> E { return of_a; },                                    \
        []([[maybe_unused]] const E& g, [[maybe_unused]] const E& a, [[maybe_unused]] const E& b, \
           [[maybe_unused]] const E& y) -> E { return of_b; });                                   \
  }
#define PIPER_BINARY_STEP(kernel, name, precision, value)
#include "schemas/plan/elementwise.def"

}  // namespace piper::autodiff::rules
