// Declares the derivative rule of every operator that rules.def gives one, in piper::autodiff::rules.
// Used by find_rule.cc and by the files that define the rules. A rule is called with at least one
// valid gradient of a result and answers as autodiff.h says of `Rule`.
#pragma once

#include "compiler/autodiff/autodiff.h"

namespace piper::autodiff::rules {

#define PIPER_RULE(enumerator, function) std::vector<ir::ValueId> function(const RuleContext& ctx);
#define PIPER_ZERO(enumerator)
#define PIPER_NONE(enumerator)
#include "compiler/autodiff/rules/rules.def"
#undef PIPER_RULE
#undef PIPER_ZERO
#undef PIPER_NONE

}  // namespace piper::autodiff::rules
