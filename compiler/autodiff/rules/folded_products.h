// Products and constants that a derivative is written with. They see constants through broadcasts: a factor that is one
// is left out, and two constants give a constant, so that a rule need not ask what its operands are.
#pragma once

#include <optional>

#include "compiler/autodiff/autodiff.h"

namespace piper::autodiff::rules {

using ir::OpKind;
using ir::ValueId;

// The value of a constant of shape [], seen through expand and reshape; nullopt for anything else.
std::optional<double> constant_value(const ir::Graph& graph, ValueId value);

// A constant of shape []; one that the graph already has is used again.
ValueId scalar(const RuleContext& ctx, double value, DType dtype);
// g * x, broadcast. A factor that is one is left out, and two constants give a constant.
ValueId multiply(const RuleContext& ctx, ValueId g, ValueId x);
// x * factor; x itself where factor is 1.
ValueId scale(const RuleContext& ctx, ValueId x, double factor);
// g / x; the constant one where both are constants and it is one, so that it is left out as a factor, whether a step
// divides by its count or a mean scales by it.
ValueId divide(const RuleContext& ctx, ValueId g, ValueId x);
ValueId negate(const RuleContext& ctx, ValueId x);

// A tensor of zeros that later ops may be written into.
ValueId zeros(const RuleContext& ctx, const ir::TensorType& type);

}  // namespace piper::autodiff::rules
