// Result types of indexing operators.
#include "compiler/ir/infer.h"

#include <algorithm>

namespace piper::ir::infer {

namespace {

// Operand `i` is the place of a part of a table of `whole` rows, and is there where the table is a part.
Status want_place(const Call& c, size_t i, int64_t whole) {
  PIPER_RETURN_IF_ERROR(c.want(i, {DType::kI64, {1}}));
  return (c.optional(i) != nullptr) == (whole > 0) ? Status() : c.fail("a place and the whole's rows go together");
}

}  // namespace

Result<Types> embedding(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2, 1));
  PIPER_RETURN_IF_ERROR(want_place(c, 2, c.as<EmbeddingAttrs>().whole));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, DType::kI64));
  if (c.x(0).shape.size() != 2) return c.fail("the table must have two axes");
  TensorType y{c.x(0).dtype, c.x(1).shape};
  y.shape.push_back(c.x(0).shape[1]);
  return Types{y};
}

Result<Types> embedding_backward(const Call& c) {
  const auto& a = c.as<EmbeddingBackwardAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(2, 1));
  PIPER_RETURN_IF_ERROR(want_place(c, 2, a.whole));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, DType::kI64));
  if (a.shape.size() != 2) return c.fail("the table must have two axes");
  TensorType g{c.x(0).dtype, c.x(1).shape};
  g.shape.push_back(a.shape[1]);
  PIPER_RETURN_IF_ERROR(c.want(0, g));
  return Types{{g.dtype, a.shape}};
}

// gather, scatter and scatter_add: `index` lies inside x but along `dim`, and inside src.
Result<Types> by_index(const Call& c) {
  bool writes = c.kind != OpKind::kGather;
  int64_t dim = c.as<DimAttrs>().dim;
  PIPER_RETURN_IF_ERROR(c.require(writes ? 3 : 2));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, DType::kI64));
  const Shape &x = c.x(0).shape, &index = c.x(1).shape;
  PIPER_RETURN_IF_ERROR(c.want_dim(dim, x.size()));
  if (index.size() != x.size()) return c.fail("index must have as many axes as operand 0");
  for (size_t i = 0; i < x.size(); ++i)
    if (static_cast<int64_t>(i) != dim && index[i] > x[i])
      return c.fail("index is larger than operand 0 on axis " + std::to_string(i));
  if (!writes) return Types{{c.x(0).dtype, index}};
  PIPER_RETURN_IF_ERROR(c.want_dtype(2, c.x(0).dtype));
  if (c.x(2).shape.size() != x.size()) return c.fail("src must have as many axes as operand 0");
  for (size_t i = 0; i < x.size(); ++i)
    if (index[i] > c.x(2).shape[i]) return c.fail("index is larger than src on axis " + std::to_string(i));
  return Types{c.x(0)};
}

Result<Types> by_row(const Call& c) {
  bool adds = c.kind == OpKind::kIndexAdd;
  int64_t dim = c.as<DimAttrs>().dim;
  PIPER_RETURN_IF_ERROR(c.require(adds ? 3 : 2));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, DType::kI64));
  PIPER_RETURN_IF_ERROR(c.want_dim(dim, c.x(0).shape.size()));
  if (c.x(1).shape.size() != 1) return c.fail("index must have one axis");
  TensorType y = c.x(0);
  y.shape[static_cast<size_t>(dim)] = c.x(1).shape[0];
  if (!adds) return Types{y};
  PIPER_RETURN_IF_ERROR(c.want(2, y));
  return Types{c.x(0)};
}

Result<Types> cat(const Call& c) {
  if (c.operands.empty()) return c.fail("takes at least one operand");
  PIPER_RETURN_IF_ERROR(c.require(c.operands.size()));
  int64_t dim = c.as<DimAttrs>().dim;
  TensorType y = c.x(0);
  PIPER_RETURN_IF_ERROR(c.want_dim(dim, y.shape.size()));
  size_t d = static_cast<size_t>(dim);
  for (size_t i = 1; i < c.operands.size(); ++i) {
    TensorType like = y;
    if (c.x(i).shape.size() == y.shape.size()) like.shape[d] = c.x(i).shape[d];
    PIPER_RETURN_IF_ERROR(c.want(i, like));
    y.shape[d] += c.x(i).shape[d];
  }
  return Types{y};
}

Result<Types> pad(const Call& c) {
  const auto& a = c.as<PadAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(1));
  TensorType y = c.x(0);
  if (a.low.size() != y.shape.size() || a.high.size() != y.shape.size())
    return c.fail("low and high want one entry per axis");
  for (size_t i = 0; i < y.shape.size(); ++i) {
    // A crop may not reach past the other end of the operand's own elements.
    if (std::min<int64_t>(a.low[i], 0) + std::min<int64_t>(a.high[i], 0) + y.shape[i] < 0)
      return c.fail("crops more than axis " + std::to_string(i) + " has");
    y.shape[i] += a.low[i] + a.high[i];
  }
  return Types{y};
}

Result<Types> slice_backward(const Call& c) {
  const auto& a = c.as<SliceBackwardAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(1));
  TensorType y{c.x(0).dtype, a.shape};
  PIPER_RETURN_IF_ERROR(c.want_dim(a.dim, a.shape.size()));
  TensorType g = y;
  int64_t& extent = g.shape[static_cast<size_t>(a.dim)];
  if (a.step < 1) return c.fail("step must be positive");
  if (a.start < 0 || a.end < a.start || a.end > extent) return c.fail("bounds outside the axis");
  extent = (a.end - a.start + a.step - 1) / a.step;
  PIPER_RETURN_IF_ERROR(c.want(0, g));
  return Types{y};
}

}  // namespace piper::ir::infer
