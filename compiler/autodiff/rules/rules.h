// Declares the derivative rules that the column `derivative` of ops.def names, in piper::autodiff::rules.
// Used by find_rule.cc and by the files that define the rules. A rule is called with at least one
// valid gradient of a result and answers as autodiff.h says of `Rule`.
#pragma once

#include "compiler/autodiff/autodiff.h"

namespace piper::autodiff::rules {

#define PIPER_RULE(function) std::vector<ir::ValueId> function(const RuleContext& ctx);
#define PIPER_ZERO
#define PIPER_STEP
#define PIPER_NONE
#define PIPER_OP(enumerator, name, attrs, types, axes, precision, folding, derivative) derivative
#include "compiler/ir/ops.def"
#undef PIPER_OP
#undef PIPER_RULE
#undef PIPER_ZERO
#undef PIPER_STEP
#undef PIPER_NONE

}  // namespace piper::autodiff::rules
