// Derivatives of exchanges between ranks: every element returns to the rank that it came from.
#include "compiler/autodiff/rules/helpers.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

std::vector<ValueId> all_to_all(const RuleContext& ctx) { return {ctx.b.add1(OpKind::kAllToAll, {grad(ctx)})}; }

}  // namespace piper::autodiff::rules
