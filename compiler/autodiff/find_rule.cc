#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff {
namespace {

struct Row {
  Derivative derivative = Derivative::kNone;
  Rule rule = nullptr;
};

Row row_of(ir::OpKind kind) {
  switch (kind) {
#define PIPER_RULE(function) {Derivative::kRule, rules::function}
#define PIPER_ZERO {Derivative::kZero, nullptr}
#define PIPER_STEP {Derivative::kStep, nullptr}
#define PIPER_NONE \
  {                \
  }
#define PIPER_OP(enumerator, name, attrs, types, axes, precision, folding, derivative) \
  case ir::OpKind::enumerator: return derivative;
#include "compiler/ir/ops.def"
#undef PIPER_OP
#undef PIPER_RULE
#undef PIPER_ZERO
#undef PIPER_STEP
#undef PIPER_NONE
  }
  return {};
}

}  // namespace

Rule find_rule(ir::OpKind kind) { return row_of(kind).rule; }
Derivative derivative_of(ir::OpKind kind) { return row_of(kind).derivative; }
bool passes_gradient(ir::OpKind kind) {
  return derivative_of(kind) != Derivative::kZero && derivative_of(kind) != Derivative::kStep;
}

}  // namespace piper::autodiff
