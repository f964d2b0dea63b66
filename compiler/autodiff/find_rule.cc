#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff {
namespace {

struct Row {
  Derivative derivative = Derivative::kNone;
  Rule rule = nullptr;
};

Row row_of(ir::OpKind kind) {
  switch (kind) {
#define PIPER_RULE(enumerator, function) \
  case ir::OpKind::enumerator: return {Derivative::kRule, rules::function};
#define PIPER_ZERO(enumerator) \
  case ir::OpKind::enumerator: return {Derivative::kZero, nullptr};
#define PIPER_NONE(enumerator) \
  case ir::OpKind::enumerator: return {};
#include "compiler/autodiff/rules/rules.def"
#undef PIPER_RULE
#undef PIPER_ZERO
#undef PIPER_NONE
  }
  return {};
}

}  // namespace

Rule find_rule(ir::OpKind kind) { return row_of(kind).rule; }
Derivative derivative_of(ir::OpKind kind) { return row_of(kind).derivative; }

}  // namespace piper::autodiff
