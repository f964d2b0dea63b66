// Factorisations of matrices, and what is made with them. LibTorch computes them in f32 and f64; operands of 16 bits
// are widened, results rounded once. On a GPU its solvers may wait for the host, as does whoever asks whether they
// failed.
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_solve_ex.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_matrix_exp.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_slogdet.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/lu_unpack.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

// body(checks): not where it runs on memory that holds zeros, to be measured.
template <class F>
std::unique_ptr<PreparedKernel> make_factor(const Call& call, F body) {
  class Factor final : public NamedKernel {
   public:
    Factor(const Call& call, F body) : NamedKernel(call), body_(std::move(body)) {}
    const char* waits_for_host() const override { return "the host asks whether a factorisation of LibTorch failed"; }

   private:
    void execute() override { body_(!is_measured()); }
    F body_;
  };
  return std::make_unique<Factor>(call, std::move(body));
}

void put(const at::Tensor& out, const at::Tensor& result) {
  if (out.defined()) store(out, result, false);
}
// A failure of any matrix, in PyTorch's words.
void check(const at::Tensor& info, const char* name) { at::_linalg_check_errors(info, name, info.dim() == 0); }

int64_t rows_of(const at::Tensor& x) { return x.size(-2); }
int64_t columns_of(const at::Tensor& x) { return x.size(-1); }

void want_matrices(const Call& call, size_t count, bool square) {
  for (size_t i = 0; i < count; ++i)
    if (call.in(i).dim() < 2) refuse("operand ", i, " is no matrix");
  if (square && rows_of(call.in(0)) != columns_of(call.in(0))) refuse("the matrices are not square");
}
// The leading axes of operand 0, then `own`.
void want_of_each(const Call& call, const at::Tensor& out, std::vector<int64_t> own, const char* what) {
  if (!out.defined()) return;
  const at::IntArrayRef sizes = call.in(0).sizes();
  std::vector<int64_t> shape(sizes.begin(), sizes.end() - 2);
  shape.insert(shape.end(), own.begin(), own.end());
  want_shape(out, shape, what);
}
void want_like(const Call& call, const at::Tensor& out) {
  if (out.defined()) want_same_dtype(out, call.in(0));
}

// b with the leading axes of the result: a right side of fewer axes would be read as vectors.
at::Tensor with_lead(const at::Tensor& x, const at::Tensor& of) {
  std::vector<int64_t> shape(of.sizes().begin(), of.sizes().end() - 2);
  shape.push_back(rows_of(x));
  shape.push_back(columns_of(x));
  return x.expand(shape);
}
void want_solution(const Call& call) {
  want_matrices(call, 2, true);
  want_same_dtype(call.in(0), call.in(1));
  want_like(call, call.out(0));
  const at::Tensor x = call.out(0), a = call.in(0), b = call.in(1);
  if (x.dim() != std::max(a.dim(), b.dim()) || rows_of(b) != columns_of(a) || rows_of(x) != rows_of(b) ||
      columns_of(x) != columns_of(b))
    refuse("the operands do not fit");
}

// The sign that so many exchanges of rows give, [..]; pivots [.., n], from 1.
at::Tensor sign_of(const at::Tensor& pivots, at::ScalarType type) {
  const at::Tensor places = at::arange(1, pivots.size(-1) + 1, pivots.options());
  return at::sum(at::ne(pivots, places), {-1}).remainder(2).mul(-2).add(1).to(type);
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_cholesky(const Call& call) {
  want_matrices(call, 1, true);
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_like(call, call.out(0));
  return make_factor(call, [l = call.out(0), a = call.in(0), asks = call.attr_bool("check")](bool checks) {
    const auto [result, info] = at::linalg_cholesky_ex(dense_computed(a));
    if (asks && checks) check(info, "linalg.cholesky");
    put(l, result);
  });
}

std::unique_ptr<PreparedKernel> bind_triangular_solve(const Call& call) {
  want_solution(call);
  return make_factor(call, [x = call.out(0), a = call.in(0), b = call.in(1), upper = call.attr_bool("upper"),
                            unit = call.attr_bool("unitriangular")](bool) {
    put(x, at::linalg_solve_triangular(dense_computed(a), dense_computed(with_lead(b, x)), upper, true, unit));
  });
}

std::unique_ptr<PreparedKernel> bind_solve(const Call& call) {
  want_solution(call);
  return make_factor(
      call, [x = call.out(0), a = call.in(0), b = call.in(1), asks = call.attr_bool("check")](bool checks) {
        const auto solved =
            at::_linalg_solve_ex(dense_computed(with_lead(a, x)), dense_computed(with_lead(b, x)), true, false);
        if (asks && checks) check(std::get<3>(solved), "linalg.solve");
        put(x, std::get<0>(solved));
      });
}

std::unique_ptr<PreparedKernel> bind_lu_factor(const Call& call) {
  want_matrices(call, 1, false);
  want_of_each(call, call.out(0), {rows_of(call.in(0)), columns_of(call.in(0))}, "output 0");
  want_of_each(call, call.out(1), {std::min(rows_of(call.in(0)), columns_of(call.in(0))), 1}, "output 1");
  want_like(call, call.out(0));
  return make_factor(
      call, [lu = call.out(0), pivots = call.out(1), a = call.in(0), asks = call.attr_bool("check")](bool checks) {
        const auto [factors, places, info] = at::linalg_lu_factor_ex(dense_computed(a));
        if (asks && checks) check(info, "torch.linalg.lu_factor");
        put(lu, factors);
        put(pivots, places.unsqueeze(-1));
      });
}

std::unique_ptr<PreparedKernel> bind_permutation(const Call& call) {
  want_matrices(call, 1, false);
  const int64_t rows = call.attr_int("rows");
  want_of_each(call, call.out(0), {rows, rows}, "the output");
  if (rows_of(call.in(0)) > rows || columns_of(call.in(0)) != 1) refuse("pivots of more rows than there are");
  return make_factor(call, [p = call.out(0), pivots = call.in(0), rows](bool) {
    // No row beyond the matrix, whatever the pivots say.
    const at::Tensor places = pivots.squeeze(-1).clamp(1, std::max<int64_t>(rows, 1)).to(at::kInt);
    std::vector<int64_t> shape = places.sizes().vec();
    shape.insert(shape.end() - 1, rows);
    const at::Tensor shaped = at::empty(shape, p.options());
    put(p, std::get<0>(at::lu_unpack(shaped, places.contiguous(), false, true)));
  });
}

std::unique_ptr<PreparedKernel> bind_det(const Call& call) {
  want_matrices(call, 1, true);
  const int64_t n = rows_of(call.in(0));
  want_of_each(call, call.out(0), {}, "output 0");
  want_of_each(call, call.out(1), {n, n}, "output 1");
  want_of_each(call, call.out(2), {n, 1}, "output 2");
  return make_factor(call, [y = call.out(0), lu = call.out(1), pivots = call.out(2), a = call.in(0)](bool) {
    const auto factored = at::linalg_lu_factor_ex(dense_computed(a));
    const at::Tensor &factors = std::get<0>(factored), &places = std::get<1>(factored);
    if (y.defined()) put(y, at::prod(factors.diagonal(0, -2, -1), -1).mul(sign_of(places, factors.scalar_type())));
    put(lu, factors);
    put(pivots, places.unsqueeze(-1));
  });
}

std::unique_ptr<PreparedKernel> bind_slogdet(const Call& call) {
  want_matrices(call, 1, true);
  want_of_each(call, call.out(0), {}, "output 0");
  want_of_each(call, call.out(1), {}, "output 1");
  return make_factor(call, [sign = call.out(0), size = call.out(1), a = call.in(0)](bool) {
    const auto both = at::linalg_slogdet(dense_computed(a));
    put(sign, std::get<0>(both));
    put(size, std::get<1>(both));
  });
}

std::unique_ptr<PreparedKernel> bind_qr(const Call& call) {
  want_matrices(call, 1, false);
  const int64_t m = rows_of(call.in(0)), n = columns_of(call.in(0));
  if (m < n) refuse("more columns than rows");
  want_of_each(call, call.out(0), {m, n}, "output 0");
  want_of_each(call, call.out(1), {n, n}, "output 1");
  return make_factor(call, [q = call.out(0), r = call.out(1), a = call.in(0)](bool) {
    const auto both = at::linalg_qr(dense_computed(a), q.defined() ? "reduced" : "r");
    put(q, std::get<0>(both));
    put(r, std::get<1>(both));
  });
}

std::unique_ptr<PreparedKernel> bind_eigh(const Call& call) {
  want_matrices(call, 1, true);
  const int64_t n = rows_of(call.in(0));
  want_of_each(call, call.out(0), {n}, "output 0");
  want_of_each(call, call.out(1), {n, n}, "output 1");
  return make_factor(call, [values = call.out(0), vectors = call.out(1), a = call.in(0)](bool) {
    if (!vectors.defined()) return put(values, at::linalg_eigvalsh(dense_computed(a), "L"));
    const auto both = at::linalg_eigh(dense_computed(a), "L");
    put(values, std::get<0>(both));
    put(vectors, std::get<1>(both));
  });
}

std::unique_ptr<PreparedKernel> bind_svd(const Call& call) {
  want_matrices(call, 1, false);
  const int64_t m = rows_of(call.in(0)), n = columns_of(call.in(0)), k = std::min(m, n);
  const bool full = call.attr_bool("full");
  want_of_each(call, call.out(0), {m, full ? m : k}, "output 0");
  want_of_each(call, call.out(1), {k}, "output 1");
  want_of_each(call, call.out(2), {full ? n : k, n}, "output 2");
  return make_factor(call, [u = call.out(0), s = call.out(1), vh = call.out(2), a = call.in(0), full](bool) {
    if (!u.defined() && !vh.defined()) return put(s, at::linalg_svdvals(dense_computed(a)));
    const auto all = at::linalg_svd(dense_computed(a), full);
    put(u, std::get<0>(all));
    put(s, std::get<1>(all));
    put(vh, std::get<2>(all));
  });
}

std::unique_ptr<PreparedKernel> bind_pinv(const Call& call) {
  const bool hermitian = call.attr_bool("hermitian");
  want_matrices(call, 1, hermitian);
  want_of_each(call, call.out(0), {columns_of(call.in(0)), rows_of(call.in(0))}, "the output");
  return make_factor(call,
                     [y = call.out(0), a = call.in(0), atol = call.attr_double("atol"), rtol = call.attr_double("rtol"),
                      hermitian](bool) { put(y, at::linalg_pinv(dense_computed(a), atol, rtol, hermitian)); });
}

std::unique_ptr<PreparedKernel> bind_matrix_exp(const Call& call) {
  want_matrices(call, 1, true);
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  return make_factor(call,
                     [y = call.out(0), a = call.in(0)](bool) { put(y, at::linalg_matrix_exp(dense_computed(a))); });
}

std::unique_ptr<PreparedKernel> bind_matrix_exp_backward(const Call& call) {
  want_matrices(call, 2, true);
  want_shape(call.in(1), call.in(0).sizes(), "the operand");
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  return make_factor(call, [y = call.out(0), g = call.in(0), a = call.in(1)](bool) {
    const at::Tensor at = dense_computed(a).mT(), wide = dense_computed(g);
    const at::Tensor both = at::cat({at::cat({at, wide}, -1), at::cat({at::zeros_like(at), at}, -1)}, -2);
    const int64_t n = rows_of(a);
    put(y, at::linalg_matrix_exp(both).narrow(-2, 0, n).narrow(-1, n, n));
  });
}

}  // namespace piper::kernels::library
