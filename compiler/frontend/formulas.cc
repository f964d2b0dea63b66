#include "compiler/frontend/formulas.h"

#include <cmath>
#include <limits>
#include <utility>

namespace piper::frontend {

using ir::OpKind;
using ir::ValueId;

ValueId clamped_inside(ir::GraphBuilder& builder, ValueId x, double low, double high) {
  const DType t = builder.type(x).dtype;
  const ValueId bounded = builder.add1(OpKind::kDetach, {builder.add1(OpKind::kClamp, {x}, ir::ClampAttrs{low, high})});
  if (!builder.status().ok()) return bounded;
  const ValueId below = builder.add1(OpKind::kLe, {x, builder.scalar(low, t)});
  const ValueId above = builder.add1(OpKind::kGe, {x, builder.scalar(high, t)});
  return builder.add1(OpKind::kWhere, {builder.add1(OpKind::kLogicalOr, {below, above}), bounded, x});
}

ValueId hard_swish(ir::GraphBuilder& builder, ValueId x) {
  const DType t = builder.type(x).dtype;
  const ValueId three = builder.scalar(3, t);
  const ValueId curve = builder.add1(
      OpKind::kDiv, {builder.add1(OpKind::kMul, {x, builder.add1(OpKind::kAdd, {x, three})}), builder.scalar(6, t)});
  const ValueId right = builder.add1(OpKind::kWhere, {builder.add1(OpKind::kLt, {x, three}), curve, x});
  const ValueId off = builder.add1(OpKind::kLe, {x, builder.scalar(-3, t)});
  return builder.add1(OpKind::kWhere, {off, builder.scalar(0, t), right});
}

// The square root is taken of 1 where the sum is 0: a gradient of 0 times its derivative there, inf, is no number.
ValueId root_of_squares(ir::GraphBuilder& builder, ValueId squares) {
  const DType t = builder.type(squares).dtype;
  const ValueId none = builder.scalar(0, t);
  const ValueId zero = builder.add1(OpKind::kEq, {squares, none});
  const ValueId safe = builder.add1(OpKind::kWhere, {zero, builder.scalar(1, t), squares});
  return builder.add1(OpKind::kWhere, {zero, none, builder.add1(OpKind::kSqrt, {safe})});
}

ValueId norm_of_order(ir::GraphBuilder& builder, ValueId x, double order, const std::vector<int64_t>& dims,
                      bool keepdim) {
  const DType t = builder.type(x).dtype;
  const ir::ReduceAttrs attrs{dims, keepdim};
  if (order == 0)
    return builder.sum(builder.add1(OpKind::kWhere, {builder.add1(OpKind::kNe, {x, builder.scalar(0, t)}),
                                                     builder.scalar(1, t), builder.add1(OpKind::kTrunc, {x})}),
                       dims, keepdim);  // a step, whose gradient is zero
  const ValueId size = builder.add1(OpKind::kAbs, {x});
  if (std::isinf(order)) {
    if (dims.empty()) return size;
    if (order > 0) return builder.add1(OpKind::kAmax, {size}, attrs);
    return builder.add1(OpKind::kNeg, {builder.add1(OpKind::kAmax, {builder.add1(OpKind::kNeg, {size})}, attrs)});
  }
  const ValueId powers = builder.add1(OpKind::kPowScalar, {size}, ir::ExponentAttrs{order});
  const ValueId total = builder.sum(powers, dims, keepdim), none = builder.scalar(0, t);
  const ValueId zero = builder.add1(OpKind::kEq, {total, none});
  const ValueId safe = builder.add1(OpKind::kWhere, {zero, builder.scalar(1, t), total});
  return builder.add1(OpKind::kWhere,
                      {zero, none, builder.add1(OpKind::kPowScalar, {safe}, ir::ExponentAttrs{1 / order})});
}

ValueId product_of_elements(ir::GraphBuilder& builder, ValueId x, const std::vector<int64_t>& dims, bool keepdim) {
  std::vector<int64_t> shape = builder.type(x).shape;
  for (const int64_t dim : dims) {
    int64_t& extent = shape[static_cast<size_t>(dim)];
    if (extent == 0) {
      extent = 1;
      x = builder.expand(builder.scalar(1, builder.type(x).dtype), shape);
    }
    ValueId rest;  // of an odd number one is left over
    while (extent > 1) {
      const int64_t half = extent / 2;
      if (extent % 2 != 0) {
        const ValueId last = builder.slice(x, dim, extent - 1, extent);
        rest = rest.valid() ? builder.add1(OpKind::kMul, {rest, last}) : last;
      }
      x = builder.add1(OpKind::kMul, {builder.slice(x, dim, 0, half), builder.slice(x, dim, half, 2 * half)});
      extent = half;
    }
    if (rest.valid()) x = builder.add1(OpKind::kMul, {x, rest});
  }
  if (keepdim) return x;
  for (size_t i = dims.size(); i-- > 0;) shape.erase(shape.begin() + dims[i]);
  return builder.reshape(x, shape);
}

// After step i each element is the product of the 2^i that end there.
ValueId products_so_far(ir::GraphBuilder& builder, ValueId x, int64_t dim) {
  const std::vector<int64_t> shape = builder.type(x).shape;
  for (int64_t by = 1; by < shape[static_cast<size_t>(dim)]; by *= 2) {
    ir::PadAttrs attrs;
    attrs.low.assign(shape.size(), 0);
    attrs.high.assign(shape.size(), 0);
    attrs.low[static_cast<size_t>(dim)] = by;
    attrs.high[static_cast<size_t>(dim)] = -by;
    attrs.value = 1;
    x = builder.add1(OpKind::kMul, {x, builder.add1(OpKind::kPad, {x}, std::move(attrs))});
  }
  return x;
}

// m + log(sum(exp(x - m))) with m = max(x) as a constant for the gradient, which it does not change. Where the greatest
// is infinite m is 0, as in PyTorch: inf - inf is no number.
ValueId log_sum_exp(ir::GraphBuilder& builder, ValueId x, const std::vector<int64_t>& dims, bool keepdim) {
  if (dims.empty()) return x;
  const DType t = builder.type(x).dtype;
  const ValueId top = builder.add1(OpKind::kDetach, {builder.add1(OpKind::kAmax, {x}, ir::ReduceAttrs{dims, true})});
  const ValueId infinity = builder.scalar(std::numeric_limits<double>::infinity(), t);
  const ValueId infinite = builder.add1(OpKind::kEq, {builder.add1(OpKind::kAbs, {top}), infinity});
  const ValueId m = builder.add1(OpKind::kWhere, {infinite, builder.scalar(0, t), top});
  const ValueId powers = builder.add1(OpKind::kExp, {builder.add1(OpKind::kSub, {x, m})});
  const ValueId total = builder.add1(OpKind::kLog, {builder.sum(powers, dims, keepdim)});
  return builder.add1(OpKind::kAdd, {total, builder.reshape(m, builder.type(total).shape)});
}

}  // namespace piper::frontend
