// Kernels of factorisations against LibTorch, and what they refuse at run time.
#include <limits>

#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using Fixture = Seeded<29>;

// Eigenvalues and singular values are far from each other: signs and orders are the same in every type.
at::Tensor apart(at::IntArrayRef shape) {
  const int64_t m = shape[shape.size() - 2], n = shape.back();
  const at::Tensor steps = at::arange(2, 2 + std::max(m, n)).to(at::kFloat);
  return at::rand(shape) * 0.5 + at::diag(steps).narrow(0, 0, m).narrow(1, 0, n);
}
at::Tensor symmetric(at::IntArrayRef shape) {
  const at::Tensor x = apart(shape);
  return x + x.mT();
}
// A matrix whose vectors have the same signs in every type; LAPACK chooses them.
at::Tensor settled(const std::function<at::Tensor()>& draw,
                   const std::function<at::Tensor(const at::Tensor&)>& vectors) {
  for (int tries = 0; tries < 200; ++tries) {
    at::Tensor x = draw();
    const at::Tensor wide = vectors(x.to(at::kDouble));
    bool same = true;
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
      same = same && close(vectors(x.to(type).to(at::kFloat)).to(at::kDouble), wide, 0.1);
    if (same) return x;
  }
  FAIL("no matrix whose vectors have the same signs in every type");
  return {};
}

const std::vector<Ints> kSquares{{4, 4}, {2, 3, 5, 5}};

void factor(const std::string& name, const Tensors& inputs, const std::function<Tensors(const Tensors&)>& f,
            std::vector<Attr> attrs = {}, double half_tolerance = 4) {
  Case c{name, std::move(attrs), inputs, f};
  c.half_tolerance = half_tolerance;
  check(c);
}

at::Tensor places_of(const at::Tensor& pivots) { return pivots.to(at::kLong).unsqueeze(-1); }

std::string failure_of(const std::string& name, const Tensors& outputs, const Tensors& inputs,
                       const std::vector<Attr>& attrs) {
  try {
    const Status status = run_kernel(name, outputs, inputs, attrs);
    return status.ok() ? "" : status.error().message;
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

}  // namespace

TEST_CASE_METHOD(Fixture, "factorisations equal LibTorch's, each matrix by itself") {
  for (const Ints& shape : kSquares) {
    const at::Tensor a = apart(shape), s = symmetric(shape);
    factor("cholesky", {s}, [](const Tensors& t) { return Tensors{at::linalg_cholesky(t[0])}; }, {{"check", true}});
    factor("det", {a}, [](const Tensors& t) {
      const auto factors = at::linalg_lu_factor_ex(t[0]);
      return Tensors{at::linalg_det(t[0]), std::get<0>(factors), places_of(std::get<1>(factors))};
    });
    factor("slogdet", {a}, [](const Tensors& t) {
      const auto both = at::linalg_slogdet(t[0]);
      return Tensors{std::get<0>(both), std::get<1>(both)};
    });
    const auto vectors = [](const at::Tensor& x) { return std::get<1>(at::linalg_eigh(x)); };
    factor("eigh", {settled([&] { return symmetric(shape); }, vectors)}, [](const Tensors& t) {
      const auto both = at::linalg_eigh(t[0]);
      return Tensors{std::get<0>(both), std::get<1>(both)};
    });
    factor("matrix_exp", {a * 0.2}, [](const Tensors& t) { return Tensors{at::linalg_matrix_exp(t[0])}; });
    factor("matrix_exp_backward", {normal(shape), a * 0.2}, [](const Tensors& t) {
      return gradients([](const Tensors& x) { return at::linalg_matrix_exp(x[0]); }, {t[1]}, {0}, t[0]);
    });
    factor("pinv", {s}, [](const Tensors& t) { return Tensors{at::linalg_pinv(t[0], 0.0, 1e-5, true)}; },
           {{"atol", 0.0}, {"rtol", 1e-5}, {"hermitian", true}});
  }
  for (const Ints& shape : {Ints{4, 4}, Ints{5, 3}, Ints{3, 5}, Ints{2, 4, 3}}) {
    const at::Tensor a = apart(shape);
    const int64_t m = a.size(-2), n = a.size(-1);
    factor("lu_factor", {a},
           [](const Tensors& t) {
             const auto factors = at::linalg_lu_factor_ex(t[0]);
             return Tensors{std::get<0>(factors), places_of(std::get<1>(factors))};
           },
           {{"check", true}});
    for (const bool full : {false, true}) {
      const auto vectors = [full](const at::Tensor& x) {
        const auto all = at::linalg_svd(x, full);
        return at::cat({std::get<0>(all).flatten(), std::get<2>(all).flatten()});
      };
      factor("svd", {settled([&] { return apart(shape); }, vectors)},
             [=](const Tensors& t) {
               const auto all = at::linalg_svd(t[0], full);
               return Tensors{std::get<0>(all), std::get<1>(all), std::get<2>(all)};
             },
             {{"full", full}});
    }
    factor("pinv", {a}, [](const Tensors& t) { return Tensors{at::linalg_pinv(t[0], 0.0, 1e-5, false)}; },
           {{"atol", 0.0}, {"rtol", 1e-5}, {"hermitian", false}});
    if (m < n) continue;
    factor("qr", {a}, [](const Tensors& t) {
      const auto both = at::linalg_qr(t[0]);
      return Tensors{std::get<0>(both), std::get<1>(both)};
    });
  }
}

TEST_CASE_METHOD(Fixture, "what solves equals LibTorch, with leading axes that are broadcast") {
  for (const auto& [of_a, of_b] : {std::pair(Ints{3, 3}, Ints{3, 2}), std::pair(Ints{3, 3}, Ints{2, 3, 3}),
                                   std::pair(Ints{2, 3, 3}, Ints{3, 2}), std::pair(Ints{2, 1, 3, 3}, Ints{4, 3, 1})}) {
    const at::Tensor a = apart(of_a), b = normal(of_b);
    const auto with_lead = [](const Tensors& t) {
      const at::Tensor product = at::matmul(t[0], t[1]);
      return t[1].expand(product.sizes());
    };
    factor("solve", {a, b}, [=](const Tensors& t) { return Tensors{at::matmul(at::linalg_inv(t[0]), t[1])}; },
           {{"check", true}});
    for (const bool upper : {false, true})
      for (const bool unit : {false, true})
        factor(
            "triangular_solve", {a, b},
            [=](const Tensors& t) {
              return Tensors{at::linalg_solve_triangular(t[0], with_lead(t), upper, true, unit)};
            },
            {{"upper", upper}, {"unitriangular", unit}}, 32);
  }
}

TEST_CASE_METHOD(Fixture, "pivots are a permutation, whatever numbers they are") {
  const at::Tensor pivots = list({2, 3, 3}).reshape({3, 1});
  const at::Tensor p = at::empty({4, 4});
  REQUIRE(run_kernel("permutation", {p}, {pivots}, {{"rows", int64_t{4}}}).ok());
  const at::Tensor a = normal({4, 3});
  const auto [lu, places] = at::linalg_lu_factor(a);
  Case c{"permutation", {{"rows", int64_t{4}}}, {places_of(places)}, [lu = lu](const Tensors& t) {
           return Tensors{std::get<0>(at::lu_unpack(lu, t[0].squeeze(-1).to(at::kInt))).to(at::kFloat)};
         }};
  c.f64 = false;
  c.half_tolerance = 0;
  check(c);
  REQUIRE(run_kernel("permutation", {p}, {list({-7, 0, 1000}).reshape({3, 1})}, {{"rows", int64_t{4}}}).ok());
  CHECK(at::equal(p.sum(0), at::ones({4})));
}

TEST_CASE_METHOD(Fixture, "matrices that cannot be factored end the run where that is asked, with PyTorch's words") {
  const at::Tensor zeros = at::zeros({2, 3, 3}), indefinite = at::eye(3).neg(), x = at::empty({3, 3});
  CHECK_THAT(failure_of("cholesky", {x}, {indefinite}, {{"check", true}}), Catch::Contains("not positive-definite"));
  CHECK_THAT(failure_of("cholesky", {at::empty({2, 3, 3})}, {zeros}, {{"check", true}}),
             Catch::Contains("Batch element 0"));
  CHECK_THAT(failure_of("solve", {x}, {zeros[0], at::eye(3)}, {{"check", true}}), Catch::Contains("singular"));
  CHECK_THAT(failure_of("lu_factor", {x, at::empty({3, 1}, at::kLong)}, {zeros[0]}, {{"check", true}}),
             Catch::Contains("U[1,1] is zero"));
  CHECK(failure_of("cholesky", {x}, {indefinite}, {{"check", false}}).empty());
  CHECK(failure_of("solve", {x}, {zeros[0], at::eye(3)}, {{"check", false}}).empty());
  CHECK(failure_of("lu_factor", {x, at::empty({3, 1}, at::kLong)}, {zeros[0]}, {{"check", false}}).empty());
}

TEST_CASE_METHOD(Fixture, "results that nobody reads are not made") {
  const at::Tensor s = symmetric({4, 4}), none;
  const at::Tensor values = at::empty({4}), r = at::empty({4, 4}), q = at::empty({4, 4});
  REQUIRE(run_kernel("eigh", {values, none}, {s}).ok());
  CHECK(close(values, at::linalg_eigvalsh(s), 1e-5));
  REQUIRE(run_kernel("svd", {none, values, none}, {s}, {{"full", false}}).ok());
  CHECK(close(values, at::linalg_svdvals(s), 1e-5));
  REQUIRE(run_kernel("qr", {none, r}, {s}).ok());
  CHECK(close(r, std::get<1>(at::linalg_qr(s)), 1e-5));
  REQUIRE(run_kernel("qr", {q, none}, {s}).ok());
  CHECK(close(q, std::get<0>(at::linalg_qr(s)), 1e-5));
}

}  // namespace piper::kernels::testing
