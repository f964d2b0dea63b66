// Kernels on rows in groups of experts against LibTorch, row by row.
#include <algorithm>
#include <limits>

#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using Fixture = Seeded<17>;

// The expert of each row, -1 for padding.
at::Tensor experts_of(const at::Tensor& counts, int64_t rows) {
  Ints expert(static_cast<size_t>(rows), -1);
  const int64_t segment_rows = rows / counts.size(0);
  for (int64_t s = 0; s < counts.size(0); ++s) {
    int64_t row = s * segment_rows;
    for (int64_t e = 0; e < counts.size(1); ++e)
      for (int64_t i = 0; i < counts[s][e].item<int64_t>(); ++i) expert[static_cast<size_t>(row++)] = e;
  }
  return list(expert);
}
at::Tensor entries(const at::Tensor& table, const at::Tensor& expert) {
  at::Tensor out = table.index_select(0, expert.clamp_min(0));
  out.index_put_({expert.lt(0)}, at::zeros({}, out.options()));
  return out;
}
// One-hot [rows, experts] of the rows that belong to an expert.
at::Tensor membership(const at::Tensor& counts, int64_t rows, const at::TensorOptions& options) {
  return experts_of(counts, rows).unsqueeze(1).eq(at::arange(counts.size(1))).to(options.dtype());
}

std::vector<Attr> order_attrs(int64_t experts, int64_t segments, int64_t capacity, bool strict = false) {
  return {{"experts", experts}, {"segments", segments}, {"capacity", capacity}, {"strict", strict}};
}

}  // namespace

TEST_CASE_METHOD(Fixture, "expert_order is a stable sort by expert with its inverse and its counts") {
  check({"expert_order", order_attrs(5, 1, 40), {at::randint(5, {40}, at::kLong)}, [](const Tensors& t) {
           const at::Tensor order = std::get<1>(at::sort(t[0], true, 0, false));
           return Tensors{order, order.argsort(), t[0].bincount({}, 5).view({1, 5}), at::zeros({}, at::kLong)};
         }});
  // Without the results that nobody reads.
  at::Tensor order = at::empty({4}, at::kLong);
  REQUIRE(run_kernel("expert_order", {order}, {list({2, 0, 2, 1})}, order_attrs(3, 1, 4)).ok());
  CHECK(at::equal(order, list({1, 3, 0, 2})));
  // An expert that does not exist is named.
  CHECK_THROWS_WITH(run_kernel("expert_order", {order}, {list({0, 3, 0, 0})}, order_attrs(3, 1, 4)),
                    Catch::Contains("row 1 asks for expert 3 of 3"));
  CHECK_THROWS_WITH(run_kernel("expert_order", {order}, {list({0, -1, 0, 0})}, order_attrs(3, 1, 4)),
                    Catch::Contains("row 1 asks for expert -1 of 3"));
}

TEST_CASE_METHOD(Fixture, "expert_order gives each expert its first rows and says what it drops") {
  // Experts 0, 1 in the first segment and 2, 3 in the second, two rows for each. Rows 4 and 6 find expert 1 full.
  const at::Tensor ids = list({1, 0, 3, 1, 1, 2, 1, 3});
  check({"expert_order", order_attrs(4, 2, 2), {ids}, [](const Tensors&) {
           return Tensors{list({1, 0, 3, -1, 5, 2, 7, -1}), list({1, 0, 5, 2, -1, 4, -1, 6}),
                          list({1, 2, 1, 2}).view({2, 2}), at::full({}, 2, at::kLong)};
         }});
  // A segment is never longer than there are rows.
  check({"expert_order", order_attrs(4, 2, 3), {list({1, 1, 1, 1})}, [](const Tensors&) {
           return Tensors{list({0, 1, 2, -1, -1, -1, -1, -1}), list({0, 1, 2, -1}), list({0, 3, 0, 0}).view({2, 2}),
                          at::ones({}, at::kLong)};
         }});
  // However many an expert is asked for: the first ones, in their order.
  const at::Tensor many = at::randint(5, {200}, at::kLong);
  for (const int64_t capacity : {1, 7, 40, 200}) {
    check({"expert_order", order_attrs(5, 5, capacity), {many}, [&](const Tensors& t) {
             const int64_t rows = std::min<int64_t>(200, capacity);
             at::Tensor order = at::full({5, rows}, -1, at::kLong), position = at::full({200}, -1, at::kLong),
                        counts = at::zeros({5, 1}, at::kLong);
             for (int64_t e = 0; e < 5; ++e) {
               const at::Tensor taken = t[0].eq(e).nonzero().flatten().slice(0, 0, capacity);
               order.select(0, e).slice(0, 0, taken.size(0)).copy_(taken);
               position.index_put_({taken}, at::arange(taken.size(0)) + e * rows);
               counts.select(0, e).fill_(taken.size(0));
             }
             return Tensors{order.flatten(), position, counts, position.lt(0).sum()};
           }});
  }
}

TEST_CASE_METHOD(Fixture, "a strict expert_order refuses what an expert has no place for") {
  at::Tensor order = at::empty({4}, at::kLong);
  REQUIRE(run_kernel("expert_order", {order}, {list({0, 1, 0, 1})}, order_attrs(2, 2, 2, true)).ok());
  CHECK(at::equal(order, list({0, 2, 1, 3})));
  CHECK_THROWS_AS(run_kernel("expert_order", {order}, {list({0, 1, 1, 1})}, order_attrs(2, 2, 2, true)), OverCapacity);
  CHECK_THROWS_WITH(
      run_kernel("expert_order", {order}, {list({0, 1, 1, 1})}, order_attrs(2, 2, 2, true)),
      Catch::Contains("1 of 4 rows are over the capacity of 2 rows of an expert; expert 1 is asked for 3"));
}

TEST_CASE_METHOD(Fixture, "take_rows reads rows, zeros for none, and repeats") {
  const at::Tensor x = at::randn({6, 3, 5}), index = list({4, -1, 0, 5, 5, 1});
  check({"take_rows", {{"repeat", int64_t{1}}}, {x, index, list({2, 5, -1, -1, 0, 3})}, [](const Tensors& t) {
           return Tensors{entries(t[0], t[1])};
         }});
  check({"take_rows",
         {{"repeat", int64_t{3}}},
         {at::randn({2, 7}), index, list({2, 5, -1, -1, 0, 3})},
         [](const Tensors& t) { return Tensors{entries(t[0].repeat_interleave(3, 0), t[1])}; }});
  check({"take_rows",
         {{"repeat", int64_t{1}}},
         {at::randint(90, {6}, at::kLong), index, list({2, 5, -1, -1, 0, 3})},
         [](const Tensors& t) { return Tensors{entries(t[0], t[1])}; },
         {},
         {},
         true,
         false});
  at::Tensor y = at::empty({2, 3});
  CHECK_THROWS_WITH(
      run_kernel("take_rows", {y}, {at::randn({4, 3}), list({0, 4}), list({0, 0, 0, 0})}, {{"repeat", int64_t{1}}}),
      Catch::Contains("index 4 of 4"));
}

TEST_CASE_METHOD(Fixture, "grouped kernels work on the rows of each expert and give zeros for padding") {
  for (const at::Tensor& counts : {list({9, 0, 4, 7}).view({1, 4}), list({2, 0, 5, 1, 0, 3, 0, 7}).view({2, 4})}) {
    INFO(counts);
    const int64_t rows = 20;
    const at::Tensor x = at::randn({rows, 33}), g = at::randn({rows, 8});
    for (const bool transposed : {false, true}) {
      const at::Tensor w = transposed ? at::randn({4, 8, 33}) : at::randn({4, 33, 8});
      check({"grouped_matmul", {{"transposed", transposed}}, {x, w, counts}, [=](const Tensors& t) {
               const at::Tensor matrices = entries(transposed ? t[1].transpose(1, 2) : t[1], experts_of(counts, rows));
               return Tensors{at::bmm(t[0].unsqueeze(1), matrices).squeeze(1)};
             }});
    }
    check({"grouped_matmul_weight", {}, {x, g, counts}, [=](const Tensors& t) {
             const at::Tensor member = membership(counts, rows, t[0].options());
             return Tensors{at::einsum("ne,na,nb->eab", {member, t[0], t[1]})};
           }});
    check({"grouped_sum", {}, {at::randn({rows, 3, 5}), counts}, [=](const Tensors& t) {
             return Tensors{at::einsum("ne,nab->eab", {membership(counts, rows, t[0].options()), t[0]})};
           }});
    check({"grouped_expand", {{"rows", rows}}, {at::randn({4, 3, 5}), counts}, [=](const Tensors& t) {
             return Tensors{entries(t[0], experts_of(counts, rows))};
           }});
  }
}

TEST_CASE_METHOD(Fixture, "padding rows are never read") {
  // What a buffer holds after its rows may be anything.
  const at::Tensor counts = list({2, 1}).view({1, 2}), w = at::randn({2, 3, 4});
  at::Tensor x = at::randn({5, 3});
  x.narrow(0, 3, 2).fill_(std::numeric_limits<float>::quiet_NaN());
  at::Tensor y = at::full({5, 4}, 7.0f), dw = at::empty({2, 3, 4}), sum = at::empty({2, 3});
  REQUIRE(run_kernel("grouped_matmul", {y}, {x, w, counts}, {{"transposed", false}}).ok());
  CHECK(y.narrow(0, 3, 2).eq(0).all().item<bool>());
  CHECK(y.isfinite().all().item<bool>());
  REQUIRE(run_kernel("grouped_matmul_weight", {dw}, {x, y, counts}).ok());
  CHECK(dw.isfinite().all().item<bool>());
  REQUIRE(run_kernel("grouped_sum", {sum}, {x, counts}).ok());
  CHECK(sum.isfinite().all().item<bool>());
  CHECK_THROWS_WITH(run_kernel("grouped_matmul", {y}, {x, w, list({4, 2}).view({1, 2})}, {{"transposed", false}}),
                    Catch::Contains("expert 1 has 2 rows where 1 are left"));
}

TEST_CASE_METHOD(Fixture, "grouped kernels take no temporaries, however the rows are divided") {
  // Bound once; the counts change from step to step.
  const at::Tensor counts = list({8, 0, 0, 24}).view({1, 4});
  const at::Tensor x = at::randn({32, 16}), w = at::randn({4, 16, 8});
  for (const Ints& step : {Ints{8, 0, 0, 24}, Ints{0, 32, 0, 0}, Ints{1, 1, 1, 1}}) {
    counts.copy_(list(step).view({1, 4}));
    check({"grouped_matmul", {{"transposed", false}}, {x, w, counts.clone()}, [&](const Tensors& t) {
             return Tensors{at::bmm(t[0].unsqueeze(1), entries(t[1], experts_of(t[2], 32))).squeeze(1)};
           }});
  }
}

}  // namespace piper::kernels::testing
