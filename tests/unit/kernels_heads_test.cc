// Heads in blocks of rows against LibTorch's product and loss, on any device.
#include <algorithm>
#include <thread>

#include "schemas/plan/head_blocks.h"
#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {

using Fixture = Seeded<12>;

// Blocks of any number, along any axis of operands with any strides; sums of gradients are added to.
TEST_CASE_METHOD(Fixture, "heads in blocks of rows equal LibTorch's product and loss") {
  constexpr int64_t kClasses = 37, kWidth = 6;
  const auto run = [](const std::string& name, const Tensors& out, const Tensors& in, const std::vector<Attr>& attrs,
                      bool accumulate) {
    const int64_t before = allocation_count();
    REQUIRE(run_kernel(name, out, in, attrs, accumulate).ok());
    int64_t& most = seen_allocations()[name];
    const bool dense = std::all_of(in.begin(), in.end(), [](const at::Tensor& t) {
      return !t.defined() || (t.is_contiguous() && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kLong));
    });
    if (dense) most = std::max(most, allocation_count() - before);
  };
  const auto error = [](const at::Tensor& a, const at::Tensor& b) {
    return (a.to(at::kDouble) - b).abs().max().item<double>() / std::max(1e-3, b.abs().max().item<double>());
  };
  struct Type {
    at::ScalarType product, logits;
    double tolerance;
  };
  for (const Ints& lead : {Ints{7}, Ints{2, 5}, Ints{3, 2, 4}})
    for (const int64_t blocks : {1, 3, 4, 100})
      for (const bool full : {false, true})
        for (const Type& type : {Type{at::kFloat, at::kFloat, 2e-5}, Type{at::kDouble, at::kDouble, 2e-6},
                                 Type{at::kBFloat16, at::kFloat, 2e-2}, Type{at::kHalf, at::kHalf, 4e-3}}) {
          Ints shape = lead;
          shape.push_back(kWidth);
          // Every other element of the last axis but one of a larger value.
          Ints larger = shape;
          larger[lead.size() - 1] *= 2;
          const auto step = static_cast<int64_t>(lead.size()) - 1;
          const at::Tensor values = normal(larger).to(type.product).slice(step, 0, larger[lead.size() - 1], 2),
                           x = blocks == 3 ? values.contiguous() : values,
                           w = (normal({kClasses, kWidth}) * 0.7).to(type.product),
                           bias = full ? normal({kClasses}).to(type.product) : at::Tensor(),
                           weight = full ? (at::rand({kClasses}) + 0.5).to(type.logits) : at::Tensor();
          const int64_t rows = x.numel() / kWidth;
          const at::Tensor target = integers(kClasses, {rows});
          target.narrow(0, 1, 2).fill_(-100);
          const double smoothing = full ? 0.1 : 0.0;
          const bool half = at::isReducedFloatingType(type.logits);
          const at::ScalarType sums = half ? at::kFloat : type.logits;
          const std::string logits = type.logits == at::kDouble ? "f64" : half ? "f16" : "f32";
          const std::vector<Attr> attrs{
              {"ignore_index", int64_t{-100}}, {"label_smoothing", smoothing}, {"logits", logits}, {"blocks", blocks}};
          const auto piper_type = [](at::ScalarType t) {
            return t == at::kDouble  ? DType::kF64
                   : t == at::kFloat ? DType::kF32
                   : t == at::kHalf  ? DType::kF16
                                     : DType::kBF16;
          };
          const at::Tensor work =
              at::empty({plan::head_work_elements(plan::Kernel::kLinearCrossEntropyBackwardWeight, rows, kClasses,
                                                  blocks, piper_type(type.product), piper_type(type.logits))});
          const at::Tensor sum = at::zeros({}, sums), lse = at::empty({rows}), g = at::full({}, 0.3, sums),
                           dx = at::ones(shape, type.product), dw = at::ones({kClasses, kWidth}, type.product),
                           dbias = full ? at::ones({kClasses}, type.product) : at::Tensor();
          const auto wide = [](const at::Tensor& t) { return t.defined() ? t.to(at::kDouble) : t; };
          const auto loss = [&](const Tensors& t) {
            return at::cross_entropy_loss(at::linear(t[0], t[1], t[2]).flatten(0, -2), target, wide(weight),
                                          at::Reduction::Sum, -100, smoothing);
          };
          const Tensors given{wide(x), wide(w), wide(bias)};
          std::vector<size_t> trained{0, 1};
          if (full) trained.push_back(2);
          Tensors wanted;
          std::thread([&] { wanted = gradients(loss, given, trained, wide(g)); }).join();  // autograd is off here
          run("linear_cross_entropy", {sum, lse, work}, {x, w, target, bias, weight}, attrs, false);
          const bool adds = full;
          run("linear_cross_entropy_backward_input", {dx, work}, {g, x, w, target, lse, bias, weight}, attrs, adds);
          run("linear_cross_entropy_backward_weight", {dw, work, dbias}, {g, x, w, target, lse, bias, weight}, attrs,
              adds);
          INFO("rows of " << shape << ", " << blocks << " blocks, full " << full << ", " << toString(type.product));
          const double before = adds ? 1 : 0;
          CHECK(error(sum, loss(given)) <= type.tolerance);
          CHECK(error(dx, wanted[0] + before) <= type.tolerance);
          CHECK(error(dw, wanted[1] + before) <= type.tolerance);
          if (full) CHECK(error(dbias, wanted[2] + before) <= type.tolerance);
        }
}

// Each block adds about the same to a sum that is 256 times as large: in a half type it would soon add nothing.
TEST_CASE_METHOD(Fixture, "a half type rounds a head's gradients once, however many blocks there are") {
  constexpr int64_t kRows = 1024, kClasses = 8, kWidth = 4, kBlocks = 256;
  const at::Tensor x = (at::rand({kRows, kWidth}) + 1).to(at::kBFloat16),
                   w = at::zeros({kClasses, kWidth}, at::kBFloat16), target = at::zeros({kRows}, at::kLong),
                   g = at::ones({}), bias = at::zeros({kClasses}, at::kBFloat16), sum = at::zeros({}),
                   lse = at::empty({kRows}), dw = at::empty({kClasses, kWidth}, at::kBFloat16),
                   dbias = at::empty({kClasses}, at::kBFloat16),
                   work = at::empty({plan::head_work_elements(plan::Kernel::kLinearCrossEntropyBackwardWeight, kRows,
                                                              kClasses, kBlocks, DType::kBF16, DType::kF32)});
  const std::vector<Attr> attrs{
      {"ignore_index", int64_t{-100}}, {"label_smoothing", 0.0}, {"logits", std::string("f32")}, {"blocks", kBlocks}};
  REQUIRE(run_kernel("linear_cross_entropy", {sum, lse, work}, {x, w, target, bias, {}}, attrs, false).ok());
  REQUIRE(run_kernel("linear_cross_entropy_backward_weight", {dw, work, dbias}, {g, x, w, target, lse, bias, {}}, attrs,
                     false)
              .ok());
  // All classes are as likely, so the gradient of a row's logits, 1/8 or 1/8 - 1, is a bf16.
  at::Tensor dlogits = at::full({kClasses, 1}, 0.125, at::kDouble);
  dlogits[0] -= 1;
  const at::Tensor wanted = dlogits * x.to(at::kDouble).sum(0, true);
  const double rounding = 1.0 / 256;  // of a bf16
  CHECK(((dw.to(at::kDouble) - wanted) / wanted).abs().max().item<double>() <= rounding);
  CHECK(((dbias.to(at::kDouble) - dlogits.squeeze(1) * kRows) / (dlogits.squeeze(1) * kRows))
            .abs()
            .max()
            .item<double>() <= rounding);
}

}  // namespace piper::kernels::testing
