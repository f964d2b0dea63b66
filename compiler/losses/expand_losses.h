// Loss operators written out as sums. Used by normalise_losses, which decides what a mean is divided
// by; it knows neither pieces nor phases.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::losses {

// The type in which losses of such operands are added up.
constexpr DType loss_sum_type(DType operands) { return is_half(operands) ? DType::kF32 : operands; }
// The result of a cross_entropy_loss or nll_loss op. "mean": sum x `inverse` ([] of loss_sum_type());
// "sum": the sum; "none": one loss per target, 0 where the target is ignored.
ir::ValueId expand_class_loss(ir::GraphBuilder& b, const ir::Op& op, ir::ValueId inverse);
// The result of an mse_loss op; "mean" divides by the operand's elements x `pieces`.
ir::ValueId expand_squared_error(ir::GraphBuilder& b, const ir::Op& op, int64_t pieces);

}  // namespace piper::losses
