// Derivatives of factorisations: PyTorch's formulas (FunctionsManual.cpp), of real matrices, as products and triangular
// solutions. They are linear in the gradient operator by operator: triangles are taken by factors of zeros and ones, so
// that the proof can follow a gradient that is a sum over samples. Where PyTorch's divides by zero (equal eigenvalues,
// equal or missing singular values, singular triangles) these do.
#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/autodiff/rules/folded_products.h"
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {

// Short forms on values that are matrices in their last two axes. An invalid value is zero.
class Matrices {
 public:
  explicit Matrices(const RuleContext& ctx) : ctx_(ctx), b_(ctx.b), dtype_(operand_type(ctx, 0).dtype) {}

  int64_t extent(ValueId x, int64_t from_end) const {
    const auto& shape = b_.type(x).shape;
    return shape[shape.size() - static_cast<size_t>(from_end)];
  }
  ValueId transpose(ValueId x) { return x.valid() ? b_.transpose(x, -1, -2) : x; }
  ValueId times(ValueId a, ValueId b) { return a.valid() && b.valid() ? b_.add1(OpKind::kMatmul, {a, b}) : ValueId(); }
  ValueId add(ValueId a, ValueId b) { return !a.valid() ? b : !b.valid() ? a : b_.add1(OpKind::kAdd, {a, b}); }
  ValueId sub(ValueId a, ValueId b) {
    return !b.valid() ? a : !a.valid() ? b_.add1(OpKind::kNeg, {b}) : b_.add1(OpKind::kSub, {a, b});
  }
  ValueId mul(ValueId a, ValueId b) { return a.valid() ? b_.add1(OpKind::kMul, {a, b}) : a; }
  ValueId div(ValueId a, ValueId b) { return a.valid() ? b_.add1(OpKind::kDiv, {a, b}) : a; }
  ValueId row(ValueId x) { return x.valid() ? b_.unsqueeze(x, -2) : x; }     // a factor of each column
  ValueId column(ValueId x) { return x.valid() ? b_.unsqueeze(x, -1) : x; }  // a factor of each row
  ValueId cut(ValueId x, int64_t from_end, int64_t start, int64_t end) {
    if (!x.valid()) return x;
    return b_.slice(x, static_cast<int64_t>(b_.type(x).shape.size()) - from_end, start, end);
  }
  ValueId cat(ValueId a, ValueId b, int64_t from_end) {
    return b_.add1(OpKind::kCat, {a, b}, ir::DimAttrs{static_cast<int64_t>(b_.type(a).shape.size()) - from_end});
  }

  // Where column - row `compared` to `diagonal` holds; bool [rows, columns].
  ValueId where(OpKind compared, int64_t rows, int64_t columns, int64_t diagonal = 0) {
    return b_.add1(compared, {b_.unsqueeze(places(columns, 0), 0), b_.unsqueeze(places(rows, diagonal), 1)});
  }
  ValueId triangle(ValueId x, OpKind kept, int64_t diagonal = 0) {
    return x.valid() ? mul(x, b_.cast(where(kept, extent(x, 2), extent(x, 1), diagonal), dtype_)) : x;
  }
  ValueId lower(ValueId x, int64_t diagonal = 0) { return triangle(x, OpKind::kLe, diagonal); }
  ValueId upper(ValueId x, int64_t diagonal = 0) { return triangle(x, OpKind::kGe, diagonal); }
  // A matrix with x [.., n] on its diagonal.
  ValueId diagonal_matrix(ValueId x) {
    return x.valid() ? mul(row(x), b_.cast(where(OpKind::kEq, extent(x, 1), extent(x, 1)), dtype_)) : x;
  }
  // x, but `number` on its diagonal; of what has no samples' sum in it.
  ValueId with_diagonal(ValueId x, double number) {
    return b_.add1(OpKind::kWhere, {where(OpKind::kEq, extent(x, 2), extent(x, 1)), scalar(ctx_, number, dtype_), x});
  }
  // The x of a x = b, or of x a = b.
  ValueId solve_left(ValueId a, ValueId b, bool is_upper, bool unit = false) {
    return b.valid() ? b_.add1(OpKind::kTriangularSolve, {a, b}, ir::TriangularAttrs{is_upper, unit}) : b;
  }
  ValueId solve_right(ValueId a, ValueId b, bool is_upper, bool unit = false) {
    return transpose(solve_left(transpose(a), transpose(b), !is_upper, unit));
  }
  ValueId half(ValueId x) { return scale(ctx_, x, 0.5); }

 private:
  ValueId places(int64_t count, int64_t first) {
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), first);
    return b_.constant_i64({count}, numbers);
  }

  const RuleContext& ctx_;
  ir::GraphBuilder& b_;
  DType dtype_;
};

// The gradient of a result that somebody reads; that of result 0 is there always.
ValueId gradient_of(const RuleContext& ctx, size_t result) {
  const ValueId g = grad(ctx, result);
  const ir::Graph& graph = ctx.b.graph();
  if (!g.valid() || graph.value(g).kind != ir::ValueKind::kOpResult) return g;
  const ir::Op& made = graph.op(graph.value(g).producer);
  return made.kind == OpKind::kFill && std::get<ir::FillAttrs>(made.attrs).value == 0 ? ValueId() : g;
}

// g as [.., 1, 1], a factor of whole matrices.
ValueId of_matrix(const RuleContext& ctx, ValueId g) { return ctx.b.unsqueeze(ctx.b.unsqueeze(g, -1), -1); }

}  // namespace

// cholesky_backward: da = l^-T sym(tril(l^T g)) l^-1 / 2
std::vector<ValueId> cholesky(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId l = ctx.op.results[0], lt = m.transpose(l);
  const ValueId phi = m.times(lt, grad(ctx));
  const ValueId both = m.add(m.lower(phi), m.transpose(m.lower(phi, -1)));
  return {m.half(m.solve_left(lt, m.solve_right(l, both, false), true))};
}

// linalg_solve_triangular_backward: db = a^-T g, da = the triangle of -db x^T
std::vector<ValueId> triangular_solve(const RuleContext& ctx) {
  Matrices m(ctx);
  const auto& attrs = std::get<ir::TriangularAttrs>(ctx.op.attrs);
  const ValueId a = ctx.op.operands[0], x = ctx.op.results[0];
  const ValueId db = m.solve_left(m.transpose(a), grad(ctx), !attrs.upper, attrs.unitriangular);
  std::vector<ValueId> result(2);
  if (ctx.needs[0]) {
    const int64_t diagonal = attrs.unitriangular ? 1 : 0;
    const ValueId whole = negate(ctx, m.times(db, m.transpose(x)));
    result[0] = to_operand(ctx, attrs.upper ? m.upper(whole, diagonal) : m.lower(whole, -diagonal), 0);
  }
  if (ctx.needs[1]) result[1] = to_operand(ctx, db, 1);
  return result;
}

// linalg_solve_backward: db = a^-T g, da = -db x^T
std::vector<ValueId> solve(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId a = ctx.op.operands[0], x = ctx.op.results[0];
  const ValueId db = ctx.b.add1(OpKind::kSolve, {m.transpose(a), grad(ctx)}, ir::CheckAttrs{false});
  std::vector<ValueId> result(2);
  if (ctx.needs[0]) result[0] = to_operand(ctx, negate(ctx, m.times(db, m.transpose(x))), 0);
  if (ctx.needs[1]) result[1] = to_operand(ctx, db, 1);
  return result;
}

// plu_backward_base: gradients of l and u are those of the triangles of the packed matrix.
std::vector<ValueId> lu_factor(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId lu = ctx.op.results[0], g = grad(ctx);
  const int64_t rows = m.extent(lu, 2), columns = m.extent(lu, 1), k = std::min(rows, columns);
  const ValueId p = ctx.b.cast(ctx.b.add1(OpKind::kPermutation, {ctx.op.results[1]}, ir::RowsAttrs{rows}),
                               operand_type(ctx, 0).dtype);
  const ValueId square = m.cut(m.cut(lu, 2, 0, k), 1, 0, k), g_square = m.cut(m.cut(g, 2, 0, k), 1, 0, k);
  const ValueId unit = m.with_diagonal(m.lower(square, -1), 1), u = m.upper(square);
  ValueId phi_l = m.times(m.transpose(unit), m.lower(g_square, -1)), phi_u = m.times(m.upper(g_square), m.transpose(u));
  ValueId further;  // of the rows or columns beyond the square
  if (rows > k) {
    const ValueId g2 = m.cut(g, 2, k, rows);
    phi_u = m.sub(phi_u, m.times(m.transpose(m.cut(lu, 2, k, rows)), g2));
    further = m.solve_right(m.transpose(u), g2, false);
  } else if (columns > k) {
    const ValueId g2 = m.cut(g, 1, k, columns);
    phi_l = m.sub(phi_l, m.times(g2, m.transpose(m.cut(lu, 1, k, columns))));
    further = m.solve_left(m.transpose(unit), g2, true, true);
  }
  const ValueId phi = m.add(m.lower(phi_l, -1), m.upper(phi_u));
  const ValueId inner = m.solve_right(m.transpose(u), m.solve_left(m.transpose(unit), phi, true, true), false);
  const ValueId all = further.valid() ? m.cat(inner, further, rows > k ? 2 : 1) : inner;
  return {m.times(p, all)};
}

// linalg_det_backward: da = g det a^-T by the factors of a, where a zero on the diagonal of u is a very small number
std::vector<ValueId> det(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId y = ctx.op.results[0], lu = ctx.op.results[1];
  const DType dtype = operand_type(ctx, 0).dtype;
  const int64_t n = m.extent(lu, 1);
  const double tiny =
      dtype == DType::kF64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const ValueId zero = ctx.b.add1(OpKind::kLogicalAnd,
                                  {ctx.b.add1(OpKind::kEq, {lu, scalar(ctx, 0, dtype)}), m.where(OpKind::kEq, n, n)});
  const ValueId factors = ctx.b.add1(OpKind::kWhere, {zero, scalar(ctx, tiny, dtype), lu});
  const ValueId p = ctx.b.cast(ctx.b.add1(OpKind::kPermutation, {ctx.op.results[2]}, ir::RowsAttrs{n}), dtype);
  const ValueId g = of_matrix(ctx, ctx.b.add1(OpKind::kMul, {grad(ctx), y}));
  const ValueId right = m.mul(g, ctx.b.cast(m.where(OpKind::kEq, n, n), dtype));
  const ValueId ft = m.transpose(factors);
  return {m.times(p, m.solve_left(ft, m.solve_left(ft, right, false), true, true))};
}

// slogdet_backward: da = g a^-T
std::vector<ValueId> slogdet(const RuleContext& ctx) {
  Matrices m(ctx);
  grad(ctx, 0);  // a step
  const ValueId g = gradient_of(ctx, 1), a = ctx.op.operands[0];
  if (!g.valid()) return {ValueId()};
  const int64_t n = m.extent(a, 1);
  const ValueId right = m.mul(of_matrix(ctx, g), ctx.b.cast(m.where(OpKind::kEq, n, n), operand_type(ctx, 0).dtype));
  return {ctx.b.add1(OpKind::kSolve, {m.transpose(a), right}, ir::CheckAttrs{false})};
}

// linalg_qr_backward, at least as many rows as columns: da = (gq + q sym(triu(gr r^T - q^T gq))) r^-T, sym(x) = x + x^T
// with half of the diagonal
std::vector<ValueId> qr(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId q = ctx.op.results[0], r = ctx.op.results[1], gq = gradient_of(ctx, 0), gr = gradient_of(ctx, 1);
  const ValueId both = m.upper(m.sub(m.times(gr, m.transpose(r)), m.times(m.transpose(q), gq)));
  const ValueId strict = m.upper(both, 1);
  const ValueId sym = m.add(both, m.transpose(strict));
  return {m.solve_right(m.transpose(r), m.add(gq, m.times(q, sym)), false)};
}

// linalg_eig_backward of symmetric matrices: da = sym(v (v^T gv / e + diag(gl)) v^T), e_ij = l_j - l_i, without its
// diagonal
std::vector<ValueId> eigh(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId l = ctx.op.results[0], v = ctx.op.results[1], gl = gradient_of(ctx, 0), gv = gradient_of(ctx, 1);
  const ValueId vt = m.transpose(v);
  if (!gv.valid()) return {m.times(m.mul(m.row(gl), v), vt)};
  const int64_t n = m.extent(v, 1);
  const ValueId e = m.with_diagonal(m.sub(m.row(l), m.column(l)), 1);
  const ValueId apart = m.mul(m.div(m.times(vt, gv), e), ctx.b.cast(m.where(OpKind::kNe, n, n), ctx.b.type(v).dtype));
  const ValueId both = m.half(m.add(apart, m.transpose(apart)));
  return {m.times(v, m.times(m.add(both, m.diagonal_matrix(gl)), vt))};
}

// svd_backward. Of singular vectors beyond the singular values it reads no gradient, as PyTorch: nothing determines
// them.
std::vector<ValueId> svd(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId s = ctx.op.results[1], gs = gradient_of(ctx, 1);
  const int64_t rows = m.extent(ctx.op.operands[0], 2), columns = m.extent(ctx.op.operands[0], 1), k = m.extent(s, 1);
  const ValueId u = m.cut(ctx.op.results[0], 1, 0, k), vh = m.cut(ctx.op.results[2], 2, 0, k);
  const ValueId gu = m.cut(gradient_of(ctx, 0), 1, 0, k), gvh = m.cut(gradient_of(ctx, 2), 2, 0, k);
  if (!gu.valid() && !gvh.valid())
    return {rows >= columns ? m.times(u, m.mul(m.column(gs), vh)) : m.times(m.mul(m.row(gs), u), vh)};
  const auto skew = [&](ValueId x) { return m.sub(x, m.transpose(x)); };
  const ValueId squares = ctx.b.add1(OpKind::kMul, {s, s});
  const ValueId e = m.with_diagonal(m.sub(m.row(squares), m.column(squares)), 1);
  ValueId inner;
  if (gu.valid()) inner = m.mul(skew(m.times(m.transpose(u), gu)), m.row(s));
  if (gvh.valid()) inner = m.add(inner, m.mul(skew(m.times(vh, m.transpose(gvh))), m.column(s)));
  inner = m.add(m.div(inner, e), m.diagonal_matrix(gs));
  if (rows > k && gu.valid()) {
    const ValueId rest = m.div(gu, m.row(s));
    const ValueId beyond = m.sub(rest, m.times(u, m.times(m.transpose(u), rest)));
    return {m.times(m.add(m.times(u, inner), beyond), vh)};
  }
  if (columns > k && gvh.valid()) {
    const ValueId rest = m.div(gvh, m.column(s));
    const ValueId beyond = m.sub(rest, m.times(m.times(rest, m.transpose(vh)), vh));
    return {m.times(u, m.add(m.times(inner, vh), beyond))};
  }
  return {m.times(m.times(u, inner), vh)};
}

// pinv_backward
std::vector<ValueId> pinv(const RuleContext& ctx) {
  Matrices m(ctx);
  const ValueId a = ctx.op.operands[0], p = ctx.op.results[0], pt = m.transpose(p), gt = m.transpose(grad(ctx));
  if (m.extent(a, 2) <= m.extent(a, 1)) {
    const ValueId k = m.times(gt, p), kp = m.times(k, pt);
    const ValueId first = m.sub(kp, m.transpose(m.times(p, k)));
    const ValueId second = m.sub(first, m.times(m.times(a, p), kp));
    return {m.add(second, m.times(m.times(pt, p), m.sub(gt, m.times(k, a))))};
  }
  const ValueId k = m.times(p, gt), pk = m.times(pt, k);
  const ValueId first = m.sub(pk, m.transpose(m.times(k, p)));
  const ValueId second = m.add(first, m.times(m.times(m.sub(gt, m.times(a, k)), p), pt));
  return {m.sub(second, m.times(m.times(pk, p), a))};
}

// linalg_matrix_exp_differential: the upper right block of the exponential of (a^T g; 0 a^T)
std::vector<ValueId> matrix_exp(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kMatrixExpBackward, {grad(ctx), ctx.op.operands[0]})};
}

}  // namespace piper::autodiff::rules
