// Result types of the operators on rows in groups of experts.
#include "compiler/ir/infer.h"

namespace piper::ir::infer {
namespace {

// counts, operand `at`, belong to `rows` rows and `experts` experts.
Status want_counts(const Call& c, size_t at, int64_t rows, int64_t experts) {
  PIPER_RETURN_IF_ERROR(c.want_dtype(at, DType::kI64));
  const Shape& counts = c.x(at).shape;
  if (counts.size() != 2 || counts[1] != experts)
    return c.fail("counts must be [segments, " + std::to_string(experts) + "]");
  if (counts[0] < 1 || rows % counts[0]) return c.fail("the segments of counts must divide the rows");
  return {};
}

}  // namespace

Result<Types> expert_order(const Call& c) {
  const auto& a = c.as<ExpertOrderAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kI64));
  if (c.x(0).shape.size() != 1) return c.fail("ids must have one axis");
  if (a.experts < 1 || a.segments < 1 || a.experts % a.segments) return c.fail("segments must divide experts");
  if (a.capacity < 0) return c.fail("capacity must not be negative");
  return Types{{DType::kI64, {a.segments * a.segment_rows(c.x(0).shape[0])}},
               {DType::kI64, c.x(0).shape},
               {DType::kI64, {a.segments, a.experts / a.segments}},
               {DType::kI64, {}}};
}

Result<Types> take_rows(const Call& c) {
  const auto& a = c.as<TakeRowsAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(3));
  if (a.repeat < 1) return c.fail("repeat must be positive");
  TensorType y = c.x(0);
  if (y.shape.empty() || c.x(1).shape.size() != 1) return c.fail("wants x [R, ..] and index [N]");
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, DType::kI64));
  PIPER_RETURN_IF_ERROR(c.want(2, {DType::kI64, {y.shape[0] * a.repeat}}));
  y.shape[0] = c.x(1).shape[0];
  return Types{y};
}

Result<Types> grouped_matmul(const Call& c) {
  const bool transposed = c.as<GroupedMatmulAttrs>().transposed;
  PIPER_RETURN_IF_ERROR(c.require(3));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, c.x(0).dtype));
  const Shape &x = c.x(0).shape, &w = c.x(1).shape;
  if (x.size() != 2 || w.size() != 3) return c.fail("wants x [N, K] and w [E, K, M]");
  if (x[1] != w[transposed ? 2 : 1]) return c.fail("inner extents differ");
  PIPER_RETURN_IF_ERROR(want_counts(c, 2, x[0], w[0]));
  return Types{{c.x(0).dtype, {x[0], w[transposed ? 1 : 2]}}};
}

Result<Types> grouped_matmul_weight(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(3));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, c.x(0).dtype));
  const Shape &a = c.x(0).shape, &b = c.x(1).shape, &counts = c.x(2).shape;
  if (a.size() != 2 || b.size() != 2 || a[0] != b[0]) return c.fail("wants a [N, A] and b [N, B]");
  if (counts.size() != 2) return c.fail("counts must have two axes");
  PIPER_RETURN_IF_ERROR(want_counts(c, 2, a[0], counts[1]));
  return Types{{c.x(0).dtype, {counts[1], a[1], b[1]}}};
}

Result<Types> grouped_expand(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  TensorType y = c.x(0);
  const int64_t rows = c.as<RowsAttrs>().rows;
  if (y.shape.empty() || rows < 0) return c.fail("wants a table [E, ..]");
  PIPER_RETURN_IF_ERROR(want_counts(c, 1, rows, y.shape[0]));
  y.shape[0] = rows;
  return Types{y};
}

Result<Types> grouped_sum(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  TensorType y = c.x(0);
  const Shape& counts = c.x(1).shape;
  if (y.shape.empty() || counts.size() != 2) return c.fail("wants x [N, ..] and counts [S, E]");
  PIPER_RETURN_IF_ERROR(want_counts(c, 1, y.shape[0], counts[1]));
  y.shape[0] = counts[1];
  return Types{y};
}

}  // namespace piper::ir::infer
