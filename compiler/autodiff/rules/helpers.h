// Short forms that the derivative rules share: products that see constants and ones, zeros, and the
// way back through a broadcast. They emit ops through the rule's builder and know nothing of chunks.
#pragma once

#include <optional>
#include <vector>

#include "compiler/autodiff/autodiff.h"

namespace piper::autodiff::rules {

using ir::OpKind;
using ir::ValueId;

// The gradient of result 0. Rules of operators with one differentiable result use this one.
ValueId grad(const RuleContext& ctx);
const ir::TensorType& operand_type(const RuleContext& ctx, size_t operand);

// The value of a constant of shape [], seen through expand and reshape; nullopt for anything else.
std::optional<double> constant_value(const ir::Graph& graph, ValueId value);

// A constant of shape []; one that the graph already has is used again.
ValueId scalar(const RuleContext& ctx, double value, DType dtype);
// g * x, broadcast. A factor that is one is left out, and two constants give a constant.
ValueId multiply(const RuleContext& ctx, ValueId g, ValueId x);
// x * factor; x itself where factor is 1.
ValueId scale(const RuleContext& ctx, ValueId x, double factor);
ValueId negate(const RuleContext& ctx, ValueId x);

// A tensor of zeros that later ops may be written into.
ValueId zeros(const RuleContext& ctx, const ir::TensorType& type);

// g summed to the shape of an operand that was broadcast.
ValueId to_operand(const RuleContext& ctx, ValueId g, size_t operand);
// Puts back the axes that a reduction dropped, with extent 1.
ValueId keep_dims(const RuleContext& ctx, ValueId reduced, const ir::ReduceAttrs& attrs, size_t operand);
// Sum over every axis but `axis`: the gradient of a per-channel bias.
ValueId sum_but(const RuleContext& ctx, ValueId g, size_t axis);

}  // namespace piper::autodiff::rules
