// ATen calls on rows in groups of experts: grouped matrix products as PyTorch and transformers write them.
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

const ir::Op* producer(Call& c, ValueId v) {
  const ir::Value& value = c.graph().value(v);
  return value.kind == ir::ValueKind::kOpResult ? &c.graph().op(value.producer) : nullptr;
}

// The number of rows of each group from where the groups end.
ValueId sizes_of_groups(Call& c, ValueId ends) {
  const ir::Op* op = producer(c, ends);
  while (op != nullptr && op->kind == OpKind::kCast && !is_floating(c.dtype(op->operands[0])))
    op = producer(c, op->operands[0]);
  if (op != nullptr && op->kind == OpKind::kCumsum) return c.cast(op->operands[0], DType::kI64);
  const ValueId wide = c.cast(ends, DType::kI64);
  const ValueId before = c.slice(wide, 0, 0, c.extent(wide, 0) - 1);
  return c.binary(OpKind::kSub, wide, c.op(OpKind::kPad, {before}, ir::PadAttrs{{1}, {0}, 0.0}));
}

// x [N, K] by groups of rows times w [E, K, M].
Item grouped_product(Call& c, ValueId x, ValueId w, ValueId ends) {
  if (c.rank(x) != 2 || c.rank(w) != 3 || c.rank(ends) != 1 || c.extent(ends, 0) != c.extent(w, 0))
    return c.fail("a grouped product is supported for rows [N, K], weights [E, K, M] and one offset for each expert");
  // A view of the stored matrices is read as stored, so that their gradient is made in their own layout.
  const ir::Op* view = producer(c, w);
  const bool turned = view != nullptr && view->kind == OpKind::kPermute &&
                      std::get<ir::PermuteAttrs>(view->attrs).dims == std::vector<int64_t>{0, 2, 1};
  const ValueId stored = turned ? view->operands[0] : w;
  const ValueId counts = c.reshape(sizes_of_groups(c, ends), {1, c.extent(w, 0)});
  return Item::of_tensor(c.op(OpKind::kGroupedMatmul, {x, stored, counts}, ir::GroupedMatmulAttrs{turned}));
}

}  // namespace

Item grouped_mm(Call& c) {
  if (c.has("bias")) return c.fail("a grouped product with a bias");
  if (!c.has("offs")) return c.fail("a grouped product without offsets");
  const ValueId x = c.tensor("self"), w = c.tensor("mat2");
  if (c.dtype_or("out_dtype", c.dtype(x)) != c.dtype(x)) return c.fail("a grouped product of another element type");
  return grouped_product(c, x, w, c.tensor("offs"));
}

Item grouped_mm_fallback(Call& c) {
  return grouped_product(c, c.tensor("input"), c.tensor("weight"), c.tensor("offs"));
}

}  // namespace piper::frontend::aten
