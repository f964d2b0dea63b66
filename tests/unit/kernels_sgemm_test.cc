// The own products of f32 matrices: against f64, and their promise that an element's bits depend on its row,
// its column and the bias alone.
#include <iostream>

#include "runtime/kernels/sgemm.h"
#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using Ints = std::vector<int64_t>;

struct Fixture {
  Fixture() {
    initialise_process();
    enter_worker_thread(1);
    at::manual_seed(11);
  }
  ~Fixture() { enter_worker_thread(1); }
};

// The instruction sets that this processor has.
std::vector<const Tiles*> tiles_here() {
  std::vector<const Tiles*> result;
  for (const Tiles* tiles : {&kAvx512Tiles, &kAvx2Tiles})
    if (tiles->supported()) result.push_back(tiles);
    else std::cout << "[SKIP] tiles of " << tiles->rows << " x " << tiles->columns << ": not on this processor\n";
  return result;
}

// A matrix [rows, columns] of normal values whose strides are (columns, 1), (1, rows) or neither.
at::Tensor matrix(int64_t rows, int64_t columns, int layout) {
  if (layout == 0) return at::randn({rows, columns});
  if (layout == 1) return at::randn({columns, rows}).t();
  return at::randn({rows, 2 * columns}).slice(1, 0, 2 * columns, 2);
}

// out = a b (+ bias) or out += a b by sgemm(); `out` has dense rows.
void multiply(const Tiles& tiles, const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
              const at::Tensor& bias = {}, bool accumulate = false) {
  Sgemm p{out.size(0), out.size(1), a.size(1)};
  p.a = a.const_data_ptr<float>(), p.a_row = a.stride(0), p.a_column = a.stride(1);
  p.b = b.const_data_ptr<float>(), p.b_row = b.stride(0), p.b_column = b.stride(1);
  p.c = out.mutable_data_ptr<float>(), p.c_row = out.stride(0);
  p.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  p.accumulate = accumulate;
  sgemm(p, tiles);
}

}  // namespace

TEST_CASE_METHOD(Fixture, "own products equal f64 for every shape and layout") {
  for (const Tiles* tiles : tiles_here())
    for (const Ints& s : {Ints{1, 1, 1}, Ints{14, 32, 16}, Ints{15, 33, 17}, Ints{13, 31, 300}, Ints{45, 16, 5},
                          Ints{128, 7, 64}, Ints{1, 800, 20}, Ints{130, 1, 70}, Ints{5, 40, 0}, Ints{0, 8, 8},
                          Ints{29, 8, 513}, Ints{120, 64, 1024}, Ints{50, 392, 60}})
      for (int layout_a = 0; layout_a < 3; ++layout_a)
        for (int layout_b = 0; layout_b < 3; ++layout_b) {
          const int64_t m = s[0], n = s[1], k = s[2];
          INFO(m << " x " << n << " x " << k << ", layouts " << layout_a << " and " << layout_b << ", tiles of "
                 << tiles->rows << " rows");
          const at::Tensor a = matrix(m, k, layout_a), b = matrix(k, n, layout_b), bias = at::randn({n});
          const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
          // Rounding of a sum of k products of size 1: well below 1e-6 sqrt(k) each time.
          const double tolerance = 2e-6 * std::sqrt(static_cast<double>(k) + 1);
          const auto error = [&](const at::Tensor& c, const at::Tensor& want) {
            return c.numel() == 0 ? 0.0 : (c.to(at::kDouble) - want).abs().max().item<double>();
          };
          // Wider than the product: what lies beside it must stay.
          const at::Tensor wide = at::full({m, n + 3}, 9.0f), c = wide.narrow(1, 0, n);
          multiply(*tiles, c, a, b);
          CHECK(error(c, exact) <= tolerance);
          multiply(*tiles, c, a, b, bias);
          CHECK(error(c, exact + bias) <= tolerance);
          const at::Tensor before = at::randn({m, n});
          c.copy_(before);
          multiply(*tiles, c, a, b, {}, true);
          CHECK(error(c, before + exact) <= tolerance);
          CHECK(at::equal(wide.narrow(1, n, 3), at::full({m, 3}, 9.0f)));
        }
}

TEST_CASE_METHOD(Fixture, "bits of an own product depend on no other row or column, stride, thread or tile") {
  const int64_t m = 301, n = 209, k = 523;
  const at::Tensor a = at::randn({m, k}), b = at::randn({k, n}), bias = at::randn({n});
  at::Tensor first;
  for (const Tiles* tiles : tiles_here()) {
    INFO("tiles of " << tiles->rows << " rows");
    const at::Tensor whole = at::empty({m, n});
    multiply(*tiles, whole, a, b, bias);
    if (first.defined()) CHECK(at::equal(whole, first));
    first = whole;
    for (const int64_t rows : {1, 2, 15, 100, 200}) {
      INFO("rows " << rows);
      const at::Tensor part = at::empty({rows, n});
      multiply(*tiles, part, a.narrow(0, 50, rows), b, bias);
      CHECK(at::equal(part, whole.narrow(0, 50, rows)));
    }
    for (const int64_t columns : {1, 5, 16, 33, 100}) {
      INFO("columns " << columns);
      const at::Tensor part = at::empty({m, columns});
      multiply(*tiles, part, a, b.narrow(1, 7, columns), bias.narrow(0, 7, columns));
      CHECK(at::equal(part, whole.narrow(1, 7, columns)));
    }
    const at::Tensor again = at::empty({m, n});
    multiply(*tiles, again, a.t().contiguous().t(), b.t().contiguous().t(), bias);
    CHECK(at::equal(again, whole));
    for (const int threads : {2, 3}) {
      enter_worker_thread(threads);
      again.zero_();
      multiply(*tiles, again, a, b, bias);
      CHECK(at::equal(again, whole));
      const at::Tensor tall = at::empty({n, m});
      multiply(*tiles, tall, b.t(), a.t());
      enter_worker_thread(1);
      const at::Tensor alone = at::empty({n, m});
      multiply(*tiles, alone, b.t(), a.t());
      CHECK(at::equal(tall, alone));
    }
  }
}

}  // namespace piper::kernels::testing
