// Formulas of several ops that both import routes write, where the first that comes to mind has other values or
// gradients than PyTorch's function: at a bound, of a row of zeros, of infinities.
// Operands are floating-point numbers.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace piper::frontend {

// min(max(x, low), high) whose gradient is 0 at the bounds, too, where that of kClamp is 1.
ir::ValueId clamped_inside(ir::GraphBuilder& builder, ir::ValueId x, double low, double high);

// x min(max(x + 3, 0), 6) / 6; its derivative is 0 at -3 and 1 at 3.
ir::ValueId hard_swish(ir::GraphBuilder& builder, ir::ValueId x);

// A norm as the square root of its sum of squares; where that is 0, the gradient is 0.
ir::ValueId root_of_squares(ir::GraphBuilder& builder, ir::ValueId squares);

// (sum(|x|^order))^(1 / order) along axes, of another order than 1 and 2: of 0 the number of elements that are not 0,
// of inf the greatest size, of -inf the least. Orders between 0 and 1 are not made here.
ir::ValueId norm_of_order(ir::GraphBuilder& builder, ir::ValueId x, double order, const std::vector<int64_t>& dims,
                          bool keepdim);

// The product of the elements along axes, by halves: a derivative is a product of the others, also where one is 0.
ir::ValueId product_of_elements(ir::GraphBuilder& builder, ir::ValueId x, const std::vector<int64_t>& dims,
                                bool keepdim);
// For each element with those before it along an axis.
ir::ValueId products_so_far(ir::GraphBuilder& builder, ir::ValueId x, int64_t dim);

// log(sum(exp(x))) along axes; -inf or inf where the greatest is that.
ir::ValueId log_sum_exp(ir::GraphBuilder& builder, ir::ValueId x, const std::vector<int64_t>& dims, bool keepdim);

}  // namespace piper::frontend
