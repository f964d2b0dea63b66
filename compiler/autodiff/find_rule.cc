#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff {

Rule find_rule(ir::OpKind kind) {
  switch (kind) {
#define PIPER_RULE(enumerator, function) \
  case ir::OpKind::enumerator: return rules::function;
#define PIPER_ZERO(enumerator) \
  case ir::OpKind::enumerator: return nullptr;
#define PIPER_NONE(enumerator) \
  case ir::OpKind::enumerator: return nullptr;
#include "compiler/autodiff/rules/rules.def"
#undef PIPER_RULE
#undef PIPER_ZERO
#undef PIPER_NONE
  }
  return nullptr;
}

Derivative derivative_of(ir::OpKind kind) {
  switch (kind) {
#define PIPER_RULE(enumerator, function) \
  case ir::OpKind::enumerator: return Derivative::kRule;
#define PIPER_ZERO(enumerator) \
  case ir::OpKind::enumerator: return Derivative::kZero;
#define PIPER_NONE(enumerator) \
  case ir::OpKind::enumerator: return Derivative::kNone;
#include "compiler/autodiff/rules/rules.def"
#undef PIPER_RULE
#undef PIPER_ZERO
#undef PIPER_NONE
  }
  return Derivative::kNone;
}

}  // namespace piper::autodiff
