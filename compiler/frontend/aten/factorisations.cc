// ATen calls that factor matrices, or solve with them: the operators of one triangle, one side and one form, with views
// and products around them. Triangles are taken by factors of zeros and ones, which are linear in a gradient.
#include <algorithm>
#include <cstring>
#include <limits>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

int64_t rows_of(Call& c, ValueId x) { return c.extent(x, c.rank(x) - 2); }
int64_t columns_of(Call& c, ValueId x) { return c.extent(x, c.rank(x) - 1); }
ValueId transposed(Call& c, ValueId x) { return c.transpose(x, c.rank(x) - 2, c.rank(x) - 1); }
ValueId cut(Call& c, ValueId x, int64_t from_end, int64_t start, int64_t end) {
  return c.slice(x, c.rank(x) - from_end, start, end);
}
ValueId matrices_times(Call& c, ValueId a, ValueId b) { return c.op(OpKind::kMatmul, {a, b}); }

// Whether x is matrices; else the call failed.
bool are_matrices(Call& c, ValueId x, bool square) {
  if (c.rank(x) >= 2 && is_floating(c.dtype(x)) && (!square || rows_of(c, x) == columns_of(c, x))) return true;
  c.fail(square ? "it wants square matrices of floating-point numbers" : "it wants matrices of floating-point numbers");
  return false;
}

// Zeros and ones: where column - row, against `diagonal`, is as `kind` says.
ValueId pattern(Call& c, OpKind kind, int64_t rows, int64_t columns, int64_t diagonal, DType dtype) {
  const ValueId row = c.unsqueeze(c.range(diagonal, rows, 1, DType::kI64), 1);
  return c.cast(c.binary(kind, c.unsqueeze(c.range(0, columns, 1, DType::kI64), 0), row), dtype);
}
ValueId kept(Call& c, ValueId x, OpKind kind, int64_t diagonal = 0) {
  return c.binary(OpKind::kMul, x, pattern(c, kind, rows_of(c, x), columns_of(c, x), diagonal, c.dtype(x)));
}
ValueId unit_matrix(Call& c, int64_t rows, int64_t columns, DType dtype) {
  return pattern(c, OpKind::kEq, rows, columns, 0, dtype);
}
ValueId with_unit_diagonal(Call& c, ValueId x) {
  return c.binary(OpKind::kAdd, kept(c, x, OpKind::kLt), unit_matrix(c, rows_of(c, x), columns_of(c, x), c.dtype(x)));
}
// The x of op(a) x = b, or of x op(a) = b where `left` is not.
ValueId solved(Call& c, ValueId a, ValueId b, bool left, bool check) {
  if (!left) return transposed(c, solved(c, transposed(c, a), transposed(c, b), true, check));
  return c.op(OpKind::kSolve, {a, b}, ir::CheckAttrs{check});
}
ValueId solved_by_triangle(Call& c, ValueId a, ValueId b, bool upper, bool left, bool unit) {
  if (!left) return transposed(c, solved_by_triangle(c, transposed(c, a), transposed(c, b), !upper, true, unit));
  return c.op(OpKind::kTriangularSolve, {a, b}, ir::TriangularAttrs{upper, unit});
}
ValueId inverse_of(Call& c, ValueId a, bool check) {
  return solved(c, a, unit_matrix(c, rows_of(c, a), columns_of(c, a), c.dtype(a)), true, check);
}

// The x of l l^T x = b, by a triangle of l. PyTorch's gradient goes to all of l, and is made of all of it: that of a
// right side less l l^T x, whose value is left out.
Item solved_by_cholesky(Call& c, ValueId l, ValueId b, bool upper) {
  if (!are_matrices(c, l, true) || !are_matrices(c, b, false)) return Item::none();
  if (upper) l = transposed(c, l);
  const ValueId triangle = c.op(OpKind::kDetach, {l});
  const auto solve = [&](ValueId right) {
    return solved_by_triangle(c, transposed(c, triangle), solved_by_triangle(c, triangle, right, false, true, false),
                              true, true, false);
  };
  const ValueId x = c.op(OpKind::kDetach, {solve(b)});
  const ValueId product = matrices_times(c, l, matrices_times(c, transposed(c, l), x));
  const ValueId moved = solve(c.binary(OpKind::kSub, b, product));
  const ValueId nothing = c.binary(OpKind::kSub, moved, c.op(OpKind::kDetach, {moved}));
  return made(c.binary(OpKind::kAdd, x, nothing));
}

Item cholesky_of(Call& c, ValueId a, bool upper, bool check) {
  if (!are_matrices(c, a, true)) return Item::none();
  const ValueId l = c.op(OpKind::kCholesky, {upper ? transposed(c, a) : a}, ir::CheckAttrs{check});
  return made(upper ? transposed(c, l) : l);
}

// a x = b or x a = b; b may be vectors, as PyTorch sees them.
Item solution(Call& c, bool check) {
  ValueId a = c.tensor("A"), b = c.tensor("B");
  if (!are_matrices(c, a, true)) return Item::none();
  const bool left = c.flag("left");
  const Extents &of_a = c.shape(a), of_b = c.shape(b);
  const bool vectors = of_b.size() == 1 || (of_b.size() + 1 == of_a.size() &&
                                            std::equal(of_b.begin(), of_b.end(), of_a.begin(), of_a.end() - 1));
  if (vectors && !left) return c.fail("vectors on the left side");
  if (vectors) b = c.unsqueeze(b, c.rank(b));
  if (!are_matrices(c, b, false)) return Item::none();
  const ValueId x = solved(c, a, b, left, check);
  return made(vectors ? c.squeeze(x, -1) : x);
}

struct Factors {
  ValueId lu, pivots;  // as operators have them: i64 [.., k, 1]
};
bool factor(Call& c, ValueId a, bool check, Factors& out) {
  if (!are_matrices(c, a, false)) return false;
  if (!c.flag("pivot")) {
    c.fail("factors without pivots, which PyTorch does not have on CPUs");
    return false;
  }
  const std::vector<ValueId> both = c.ops(OpKind::kLuFactor, {a}, ir::CheckAttrs{check});
  if (both.size() == 2) out = {both[0], both[1]};
  return both.size() == 2;
}
Item factors(Call& c, ValueId a, bool check) {
  Factors f;
  if (!factor(c, a, check, f)) return Item::none();
  return Item::of_list({made(f.lu), made(c.cast(c.squeeze(f.pivots, -1), DType::kI32)), Item::none()});
}
ValueId lower_of(Call& c, ValueId lu) {
  return with_unit_diagonal(c, cut(c, lu, 1, 0, std::min(rows_of(c, lu), columns_of(c, lu))));
}
ValueId upper_of(Call& c, ValueId lu) {
  return kept(c, cut(c, lu, 2, 0, std::min(rows_of(c, lu), columns_of(c, lu))), OpKind::kGe);
}
ValueId permutation_of(Call& c, ValueId pivots, int64_t rows, DType dtype) {
  return c.cast(c.op(OpKind::kPermutation, {pivots}, ir::RowsAttrs{rows}), dtype);
}
ValueId pivots_of(Call& c, const char* name) {
  return c.unsqueeze(c.cast(c.tensor(name), DType::kI64), c.rank(c.tensor(name)));
}

// a x = b by the packed factors of a, x a = b, or with a transposed.
Item solved_by_factors(Call& c, ValueId lu, ValueId pivots, ValueId b, bool left, bool adjoint) {
  if (!are_matrices(c, lu, true) || !are_matrices(c, b, false)) return Item::none();
  if (!left) b = transposed(c, b);
  const ValueId p = permutation_of(c, pivots, rows_of(c, lu), c.dtype(lu));
  ValueId x;
  if (adjoint == left) {
    x = solved_by_triangle(c, transposed(c, lu), b, false, true, false);
    x = matrices_times(c, p, solved_by_triangle(c, transposed(c, lu), x, true, true, true));
  } else {
    x = solved_by_triangle(c, lu, matrices_times(c, transposed(c, p), b), false, true, true);
    x = solved_by_triangle(c, lu, x, true, true, false);
  }
  return made(left ? x : transposed(c, x));
}

Item eigenvalues(Call& c, ValueId a, bool vectors) {
  if (!are_matrices(c, a, true)) return Item::none();
  const std::string triangle = c.text("UPLO");
  const bool upper = triangle == "U" || triangle == "u";
  const std::vector<ValueId> both = c.ops(OpKind::kEigh, {upper ? transposed(c, a) : a});
  if (both.size() != 2) return Item::none();
  return Item::of_list({made(both[0]), vectors ? made(both[1]) : Item::none()});
}

std::vector<ValueId> singular(Call& c, ValueId a, bool full) {
  if (!are_matrices(c, a, false)) return {};
  return c.ops(OpKind::kSvd, {a}, ir::SvdAttrs{full && rows_of(c, a) != columns_of(c, a)});
}

Item qr_of(Call& c, ValueId a, bool complete) {
  if (!are_matrices(c, a, false)) return Item::none();
  const int64_t m = rows_of(c, a), n = columns_of(c, a);
  if (complete && m > n) return c.fail("all columns of q, which has no derivative in PyTorch");
  const std::vector<ValueId> both = c.ops(OpKind::kQr, {m < n ? cut(c, a, 1, 0, m) : a});
  if (both.size() != 2) return Item::none();
  if (m >= n) return Item::of_list({made(both[0]), made(both[1])});
  const ValueId further = matrices_times(c, transposed(c, both[0]), cut(c, a, 1, m, n));
  return Item::of_list({made(both[0]), made(c.cat({both[1], further}, c.rank(a) - 1))});
}

// A tolerance that is a number, known when the model is imported; `absent` where the call says none.
double tolerance(Call& c, const char* name, double absent) {
  if (!c.has(name)) return absent;
  const std::optional<ConstantTensor> known =
      c.arg(name).is_tensor() ? c.known(c.tensor(name)) : std::optional<ConstantTensor>();
  if (!known || known->type.dtype != DType::kF64 || known->type.elements() != 1) return c.real(name);
  double number = 0;
  std::memcpy(&number, known->data()->data(), sizeof number);
  return number;
}
Item pinv_of(Call& c, double atol, double rtol, bool hermitian) {
  const ValueId a = c.tensor("self");
  if (!are_matrices(c, a, hermitian)) return Item::none();
  return made(c.op(OpKind::kPinv, {a}, ir::PinvAttrs{atol, rtol, hermitian}));
}
Item pinv_by(Call& c) {
  const ValueId a = c.tensor("self");
  if (!are_matrices(c, a, false)) return Item::none();
  const double epsilon =
      c.dtype(a) == DType::kF64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const double atol = tolerance(c, "atol", 0);
  const double otherwise = atol > 0 ? 0 : epsilon * static_cast<double>(std::max(rows_of(c, a), columns_of(c, a)));
  return pinv_of(c, atol, tolerance(c, "rtol", otherwise), c.flag("hermitian"));
}

// Reflectors 1 - tau v v^T, v under the diagonal of the columns of x: their product is 1 - v d (1 + s d)^-1 v^T, with
// tau on the diagonal of d and s what v^T v has above its diagonal.
struct Reflectors {
  ValueId v, tau, inner;  // inner = 1 + s d
};
bool reflectors(Call& c, ValueId x, ValueId tau, Reflectors& out) {
  if (!are_matrices(c, x, false)) return false;
  const int64_t k = c.rank(tau) + 1 == c.rank(x) ? c.extent(tau, c.rank(tau) - 1) : -1;
  if (k < 0 || k > columns_of(c, x) || rows_of(c, x) < columns_of(c, x)) {
    c.fail("reflectors that do not fit");
    return false;
  }
  out.v = with_unit_diagonal(c, cut(c, x, 1, 0, k));
  out.tau = tau;
  const ValueId above = kept(c, matrices_times(c, transposed(c, out.v), out.v), OpKind::kGt);
  out.inner = c.binary(OpKind::kAdd, c.binary(OpKind::kMul, above, c.unsqueeze(tau, c.rank(tau) - 1)),
                       unit_matrix(c, k, k, c.dtype(x)));
  return true;
}
ValueId reflected(Call& c, const Reflectors& r, ValueId y, bool transpose) {
  const ValueId d = c.unsqueeze(r.tau, c.rank(r.tau)), seen = matrices_times(c, transposed(c, r.v), y);
  const ValueId mixed =
      transpose ? solved_by_triangle(c, transposed(c, r.inner), c.binary(OpKind::kMul, d, seen), false, true, true)
                : c.binary(OpKind::kMul, d, solved_by_triangle(c, r.inner, seen, true, true, true));
  return c.binary(OpKind::kSub, y, matrices_times(c, r.v, mixed));
}
Item product_of_reflectors(Call& c, ValueId x, ValueId tau) {
  Reflectors r;
  if (!reflectors(c, x, tau, r)) return Item::none();
  return made(reflected(c, r, unit_matrix(c, rows_of(c, x), columns_of(c, x), c.dtype(x)), false));
}

}  // namespace

Item linalg_cholesky(Call& c) { return cholesky_of(c, c.tensor("self"), c.flag("upper"), true); }
Item linalg_cholesky_ex(Call& c) {
  return Item::of_list({cholesky_of(c, c.tensor("self"), c.flag("upper"), c.flag("check_errors")), Item::none()});
}

Item cholesky_inverse(Call& c) {
  const ValueId l = c.tensor("self");
  if (!are_matrices(c, l, true)) return Item::none();
  return solved_by_cholesky(c, l, unit_matrix(c, rows_of(c, l), columns_of(c, l), c.dtype(l)), c.flag("upper"));
}
Item cholesky_solve(Call& c) { return solved_by_cholesky(c, c.tensor("input2"), c.tensor("self"), c.flag("upper")); }

Item linalg_solve_triangular(Call& c) {
  const ValueId a = c.tensor("self"), b = c.tensor("B");
  if (!are_matrices(c, a, true) || !are_matrices(c, b, false)) return Item::none();
  return made(solved_by_triangle(c, a, b, c.flag("upper"), c.flag("left"), c.flag("unitriangular")));
}
Item triangular_solve(Call& c) {
  const ValueId a = c.tensor("A"), b = c.tensor("self");
  if (!are_matrices(c, a, true) || !are_matrices(c, b, false)) return Item::none();
  const bool turned = c.flag("transpose");
  const ValueId x =
      solved_by_triangle(c, turned ? transposed(c, a) : a, b, c.flag("upper") != turned, true, c.flag("unitriangular"));
  return Item::of_list({made(x), made(a)});
}

// x as [.., n, n], whose axes from `first` on are the columns: [rows.., columns..] of as many elements.
ValueId as_matrix(Call& c, ValueId x, int64_t first) {
  const Extents shape = c.shape(x);
  int64_t rows = 1, columns = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t& product = static_cast<int64_t>(d) < first ? rows : columns;
    product = c.product(product, shape[d]);
  }
  return c.reshape(x, {rows, columns});
}
Item linalg_tensorinv(Call& c) {
  const ValueId x = c.tensor("self"), a = as_matrix(c, x, c.integer("ind"));
  if (c.integer("ind") < 1 || !are_matrices(c, a, true)) return c.fail("it wants axes that make a square matrix");
  Extents shape = c.shape(x);
  std::rotate(shape.begin(), shape.begin() + std::min(c.integer("ind"), c.rank(x)), shape.end());
  return made(c.reshape(inverse_of(c, a, true), std::move(shape)));
}

Item linalg_solve(Call& c) { return solution(c, true); }
Item linalg_solve_ex(Call& c) {
  return Item::of_list({solution(c, c.flag("check_errors")), Item::none(), Item::none(), Item::none()});
}
Item linalg_inv(Call& c) {
  const ValueId a = c.tensor("A");
  if (!are_matrices(c, a, true)) return Item::none();
  return made(inverse_of(c, a, true));
}
Item linalg_inv_ex(Call& c) {
  const ValueId a = c.tensor("A");
  if (!are_matrices(c, a, true)) return Item::none();
  return Item::of_list({made(inverse_of(c, a, c.flag("check_errors"))), Item::none()});
}

Item linalg_det(Call& c) {
  const ValueId a = c.tensor("A");
  if (!are_matrices(c, a, true)) return Item::none();
  const std::vector<ValueId> all = c.ops(OpKind::kDet, {a});
  return all.empty() ? Item::none() : made(all[0]);
}
Item linalg_det_and_factors(Call& c) { return Item::of_list({linalg_det(c), Item::none(), Item::none()}); }
Item linalg_slogdet(Call& c) {
  const ValueId a = c.tensor("A");
  if (!are_matrices(c, a, true)) return Item::none();
  const std::vector<ValueId> both = c.ops(OpKind::kSlogdet, {a});
  if (both.size() != 2) return Item::none();
  return Item::of_list({made(both[0]), made(both[1]), Item::none(), Item::none()});
}
Item logdet(Call& c) {
  Item both = linalg_slogdet(c);
  if (!both.is_list()) return both;
  const ValueId sign = both.list[0].tensor, size = both.list[1].tensor;
  const ValueId negative = c.binary(OpKind::kEq, sign, -1);
  return made(
      c.op(OpKind::kWhere, {negative, c.scalar(std::numeric_limits<double>::quiet_NaN(), c.dtype(size)), size}));
}

Item linalg_qr(Call& c) {
  const std::string mode = c.text("mode");
  if (mode != "reduced" && mode != "complete") return c.fail("r alone, which has no derivative in PyTorch");
  return qr_of(c, c.tensor("A"), mode == "complete");
}
Item qr(Call& c) { return qr_of(c, c.tensor("self"), !c.flag("some")); }

Item linalg_eigh(Call& c) { return eigenvalues(c, c.tensor("self"), true); }
Item linalg_eigh_maybe(Call& c) { return eigenvalues(c, c.tensor("A"), c.flag("compute_v")); }
Item linalg_eigvalsh(Call& c) {
  const Item both = eigenvalues(c, c.tensor("self"), false);
  return both.is_list() ? both.list[0] : both;
}

Item linalg_svd(Call& c) {
  const std::vector<ValueId> all = singular(c, c.tensor("A"), c.flag("full_matrices"));
  if (all.size() != 3) return Item::none();
  return Item::of_list({made(all[0]), made(all[1]), made(all[2])});
}
Item linalg_svd_maybe(Call& c) {
  if (c.flag("compute_uv")) return linalg_svd(c);
  const std::vector<ValueId> all = singular(c, c.tensor("A"), false);
  if (all.size() != 3) return Item::none();
  return Item::of_list({Item::none(), made(all[1]), Item::none()});
}
Item linalg_svdvals(Call& c) {
  const std::vector<ValueId> all = singular(c, c.tensor("A"), false);
  return all.size() == 3 ? made(all[1]) : Item::none();
}
Item svd(Call& c) {
  const ValueId a = c.tensor("self");
  const std::vector<ValueId> all = singular(c, a, !c.flag("some"));
  if (all.size() != 3) return Item::none();
  if (c.flag("compute_uv")) return Item::of_list({made(all[0]), made(all[1]), made(transposed(c, all[2]))});
  Extents left = c.shape(a), right = left;
  left.back() = left[left.size() - 2];
  right[right.size() - 2] = right.back();
  return Item::of_list({made(c.filled(left, 0, c.dtype(a))), made(all[1]), made(c.filled(right, 0, c.dtype(a)))});
}

Item linalg_lu(Call& c) {
  const ValueId a = c.tensor("A");
  Factors f;
  if (!factor(c, a, false, f)) return Item::none();
  return Item::of_list(
      {made(permutation_of(c, f.pivots, rows_of(c, a), c.dtype(a))), made(lower_of(c, f.lu)), made(upper_of(c, f.lu))});
}
Item linalg_lu_factor(Call& c) { return factors(c, c.tensor("A"), true); }
Item linalg_lu_factor_ex(Call& c) { return factors(c, c.tensor("A"), c.flag("check_errors")); }
Item lu_with_info(Call& c) { return factors(c, c.tensor("self"), c.flag("check_errors")); }
Item lu_unpack(Call& c) {
  const ValueId lu = c.tensor("LU_data");
  if (!are_matrices(c, lu, false)) return Item::none();
  const bool data = c.flag("unpack_data");
  return Item::of_list({c.flag("unpack_pivots")
                            ? made(permutation_of(c, pivots_of(c, "LU_pivots"), rows_of(c, lu), c.dtype(lu)))
                            : Item::none(),
                        data ? made(lower_of(c, lu)) : Item::none(), data ? made(upper_of(c, lu)) : Item::none()});
}
Item linalg_lu_solve(Call& c) {
  return solved_by_factors(c, c.tensor("LU"), pivots_of(c, "pivots"), c.tensor("B"), c.flag("left"), c.flag("adjoint"));
}
Item lu_solve(Call& c) {
  return solved_by_factors(c, c.tensor("LU_data"), pivots_of(c, "LU_pivots"), c.tensor("self"), true, false);
}

Item linalg_pinv(Call& c) { return pinv_by(c); }
Item linalg_pinv_rcond(Call& c) { return pinv_of(c, 0, tolerance(c, "rcond", 0), c.flag("hermitian")); }
Item pinverse(Call& c) { return pinv_of(c, 0, c.real("rcond"), false); }

Item linalg_matrix_exp(Call& c) {
  const ValueId a = c.tensor("self");
  if (!are_matrices(c, a, true)) return Item::none();
  return made(c.op(OpKind::kMatrixExp, {a}));
}
Item linalg_matrix_power(Call& c) {
  ValueId a = c.tensor("self");
  if (!are_matrices(c, a, true)) return Item::none();
  int64_t n = c.integer("n");
  if (n == 0) {  // the same for every matrix: a gradient of zeros
    const ValueId never = c.binary(OpKind::kGt, a, std::numeric_limits<double>::infinity());
    const ValueId one = c.expand(unit_matrix(c, rows_of(c, a), columns_of(c, a), c.dtype(a)), c.shape(a));
    return made(c.op(OpKind::kWhere, {never, c.op(OpKind::kSign, {a}), one}));
  }
  if (n < 0) a = inverse_of(c, a, true);
  ValueId result;
  for (n = n < 0 ? -n : n; n > 0; n /= 2) {
    if (n % 2 == 1) result = result.valid() ? matrices_times(c, result, a) : a;
    if (n > 1) a = matrices_times(c, a, a);
  }
  return made(result);
}

Item linalg_householder_product(Call& c) { return product_of_reflectors(c, c.tensor("input"), c.tensor("tau")); }
Item orgqr(Call& c) { return product_of_reflectors(c, c.tensor("self"), c.tensor("input2")); }
Item ormqr(Call& c) {
  Reflectors r;
  if (!reflectors(c, c.tensor("self"), c.tensor("input2"), r)) return Item::none();
  const ValueId y = c.tensor("input3");
  if (!are_matrices(c, y, false)) return Item::none();
  if (c.flag("left")) return made(reflected(c, r, y, c.flag("transpose")));
  return made(transposed(c, reflected(c, r, transposed(c, y), !c.flag("transpose"))));
}

}  // namespace piper::frontend::aten
