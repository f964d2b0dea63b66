// From the gradient of an op's result to the gradient of one operand: the way back through a broadcast, a reduction and
// a bias. The derivative rules use it; what the operator itself does to the gradient is the rule's own.
#pragma once

#include "compiler/autodiff/autodiff.h"

namespace piper::autodiff::rules {

using ir::OpKind;  // for the rules
using ir::ValueId;

// The gradient of a result. Rules of operators with one differentiable result use result 0.
ValueId grad(const RuleContext& ctx, size_t result = 0);
const ir::TensorType& operand_type(const RuleContext& ctx, size_t operand);

// g summed to the shape of an operand that was broadcast.
ValueId to_operand(const RuleContext& ctx, ValueId g, size_t operand);
// Puts back the axes that a reduction dropped, with extent 1.
ValueId keep_dims(const RuleContext& ctx, ValueId reduced, const ir::ReduceAttrs& attrs, size_t operand);
// Sum over every axis but `axis`: the gradient of a per-channel bias.
ValueId sum_but(const RuleContext& ctx, ValueId g, size_t axis);

}  // namespace piper::autodiff::rules
