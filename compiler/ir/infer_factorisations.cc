// Result types of factorisations, and of what is made with them: operands are matrices, with any leading axes.
#include <algorithm>

#include "compiler/ir/infer.h"

namespace piper::ir::infer {
namespace {

// So many operands, all of one floating type and of at least two axes.
Status want_matrices(const Call& c, size_t count) {
  PIPER_RETURN_IF_ERROR(c.require(count));
  for (size_t i = 0; i < count; ++i) {
    PIPER_RETURN_IF_ERROR(c.want_float(i));
    PIPER_RETURN_IF_ERROR(c.want_dtype(i, c.x(0).dtype));
    if (c.x(i).shape.size() < 2) return c.fail("wants matrices");
  }
  return {};
}
Status want_square(const Call& c) {
  const Shape& a = c.x(0).shape;
  return a.back() == a[a.size() - 2] ? Status() : c.fail("wants square matrices");
}

Shape lead_of(const Shape& matrices) { return Shape(matrices.begin(), matrices.end() - 2); }
TensorType with_axes(DType dtype, Shape lead, const Shape& own) {
  lead.insert(lead.end(), own.begin(), own.end());
  return {dtype, std::move(lead)};
}
// The leading axes of operand 0, then `own`.
TensorType of_each(const Call& c, const Shape& own, DType dtype) {
  return with_axes(dtype, lead_of(c.x(0).shape), own);
}
TensorType of_each(const Call& c, const Shape& own) { return of_each(c, own, c.x(0).dtype); }
int64_t rows_of(const Call& c) { return c.x(0).shape[c.x(0).shape.size() - 2]; }
int64_t columns_of(const Call& c) { return c.x(0).shape.back(); }

Result<Types> same_square(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  PIPER_RETURN_IF_ERROR(want_square(c));
  return Types{c.x(0)};
}
Result<Types> solution(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 2));
  PIPER_RETURN_IF_ERROR(want_square(c));
  const Shape &a = c.x(0).shape, &b = c.x(1).shape;
  if (b[b.size() - 2] != a.back()) return c.fail("the right side has another number of rows");
  std::optional<Shape> lead = broadcast_shape(lead_of(a), lead_of(b));
  if (!lead) return c.fail("leading axes cannot be broadcast");
  return Types{with_axes(c.x(0).dtype, std::move(*lead), {a.back(), b.back()})};
}

}  // namespace

Result<Types> cholesky(const Call& c) { return same_square(c); }
Result<Types> matrix_exp(const Call& c) { return same_square(c); }
Result<Types> triangular_solve(const Call& c) { return solution(c); }
Result<Types> solve(const Call& c) { return solution(c); }

Result<Types> lu_factor(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  return Types{c.x(0), of_each(c, {std::min(rows_of(c), columns_of(c)), 1}, DType::kI64)};
}

Result<Types> permutation(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kI64));
  const int64_t rows = c.as<RowsAttrs>().rows;
  if (c.x(0).shape.size() < 2 || columns_of(c) != 1 || rows_of(c) > rows)
    return c.fail("wants pivots [.., k, 1] of at least k rows");
  return Types{of_each(c, {rows, rows}, DType::kF32)};
}

Result<Types> det(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  PIPER_RETURN_IF_ERROR(want_square(c));
  return Types{of_each(c, {}), c.x(0), of_each(c, {rows_of(c), 1}, DType::kI64)};
}

Result<Types> slogdet(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  PIPER_RETURN_IF_ERROR(want_square(c));
  return Types{of_each(c, {}), of_each(c, {})};
}

Result<Types> qr(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  if (rows_of(c) < columns_of(c)) return c.fail("wants at least as many rows as columns");
  return Types{c.x(0), of_each(c, {columns_of(c), columns_of(c)})};
}

Result<Types> eigh(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  PIPER_RETURN_IF_ERROR(want_square(c));
  return Types{of_each(c, {columns_of(c)}), c.x(0)};
}

Result<Types> svd(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  const int64_t m = rows_of(c), n = columns_of(c), k = std::min(m, n);
  const bool full = c.as<SvdAttrs>().full;
  return Types{of_each(c, {m, full ? m : k}), of_each(c, {k}), of_each(c, {full ? n : k, n})};
}

Result<Types> pinv(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 1));
  if (c.as<PinvAttrs>().hermitian) PIPER_RETURN_IF_ERROR(want_square(c));
  return Types{of_each(c, {columns_of(c), rows_of(c)})};
}

Result<Types> matrix_exp_backward(const Call& c) {
  PIPER_RETURN_IF_ERROR(want_matrices(c, 2));
  PIPER_RETURN_IF_ERROR(want_square(c));
  PIPER_RETURN_IF_ERROR(c.want(1, c.x(0)));
  return Types{c.x(0)};
}

}  // namespace piper::ir::infer
