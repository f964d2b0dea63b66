#include "compiler/frontend/aten/softmax.h"

#include <limits>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

Item soft(Call& c, OpKind kind, DType to) {
  const ValueId x = c.cast(c.tensor("self"), to);
  if (c.rank(x) == 0) return made(c.reshape(c.op(kind, {c.reshape(x, {1})}, ir::DimAttrs{0}), {}));
  return made(c.op(kind, {x}, ir::DimAttrs{c.dim("dim", c.shape(x).size())}));
}

}  // namespace

Item softmax(Call& c) {
  const DType own = c.dtype(c.tensor("self"));
  return soft(c, c.kind(), c.dtype_or("dtype", is_floating(own) ? own : DType::kF32));
}
Item softmax_half(Call& c) { return soft(c, c.kind(), c.dtype(c.tensor("self"))); }

ValueId safe_softmax(Call& c, ValueId x, int64_t dim) {
  const ValueId top = c.op(OpKind::kDetach, {c.op(OpKind::kAmax, {x}, ir::ReduceAttrs{{dim}, true})});
  const ValueId dead = c.binary(OpKind::kEq, top, -std::numeric_limits<double>::infinity());
  const ValueId zero = c.scalar(0, c.dtype(x));
  const ValueId y = c.op(OpKind::kSoftmax, {c.op(OpKind::kWhere, {dead, zero, x})}, ir::DimAttrs{dim});
  return c.op(OpKind::kWhere, {dead, zero, y});
}
Item safe_softmax_call(Call& c) {
  const ValueId x = c.tensor("self"), y = c.cast(x, c.dtype_or("dtype", c.dtype(x)));
  if (c.rank(y) == 0) return c.fail("a softmax of a scalar");
  return made(safe_softmax(c, y, c.dim("dim", c.shape(y).size())));
}

}  // namespace piper::frontend::aten
