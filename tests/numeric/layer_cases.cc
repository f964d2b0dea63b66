// Cases of products, normalisations, pooling, attention, dropout and losses.
#include <cmath>

#include "tests/numeric/rule_cases.h"

namespace piper::numeric {

using ir::OpKind;
using ir::ValueId;

namespace {

// Row statistics and log-sum-exps are kept in f32 between forward and backward, whatever the dtype:
// relative error 6e-8, on exponents of a few units.
constexpr double kF32Statistics = 2e-6;

void add_product_cases(std::vector<RuleCase>& cases) {
  const auto matmul = [&](const std::string& name, std::vector<int64_t> a_shape, std::vector<int64_t> b_shape) {
    cases.push_back({"matmul " + name, [=](CaseBuilder& c) {
                       const ValueId a = c.parameter(a_shape), b = c.parameter(b_shape);
                       return c.loss_of({c.b.add1(OpKind::kMatmul, {a, b})});
                     }});
  };
  matmul("of matrices", {3, 4}, {4, 2});
  matmul("of batches", {2, 3, 4}, {2, 4, 2});
  matmul("of a batch by a matrix", {2, 2, 3, 4}, {4, 2});
  matmul("of a matrix by a batch", {3, 4}, {2, 4, 2});
  matmul("of broadcast batches", {2, 1, 3, 4}, {3, 4, 2});
  for (bool bias : {false, true})
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4}, {3, 4}, {2, 3, 4}})
      cases.push_back({"linear" + std::string(bias ? " with bias" : "") + " on rank " + std::to_string(shape.size()),
                       [=](CaseBuilder& c) {
                         const ValueId x = c.parameter(shape), w = c.parameter({5, 4});
                         return c.loss_of({c.b.add1(OpKind::kLinear, {x, w, bias ? c.parameter({5}) : ValueId()})});
                       }});
  const auto convolution = [&](const std::string& name, std::vector<int64_t> x_shape, std::vector<int64_t> w_shape,
                               ir::ConvolutionAttrs attrs, bool bias) {
    cases.push_back({"convolution " + name, [=](CaseBuilder& c) {
                       const ValueId x = c.parameter(x_shape), w = c.parameter(w_shape);
                       return c.loss_of({c.b.add1(OpKind::kConvolution,
                                                  {x, w, bias ? c.parameter({w_shape[0]}) : ValueId()}, attrs)});
                     }});
  };
  convolution("2-d", {2, 2, 4, 5}, {3, 2, 3, 2}, {{1, 1}, {0, 0}, {1, 1}, 1}, true);
  convolution("2-d with stride, padding and dilation", {1, 2, 5, 6}, {2, 2, 2, 3}, {{2, 1}, {1, 2}, {1, 2}, 1}, false);
  convolution("2-d in groups", {2, 4, 3, 3}, {4, 2, 2, 2}, {{1, 1}, {1, 0}, {1, 1}, 2}, true);
  convolution("3-d", {1, 2, 3, 4, 3}, {2, 1, 2, 2, 1}, {{1, 2, 1}, {1, 0, 1}, {1, 1, 2}, 2}, true);
  convolution("1-d", {2, 3, 6}, {2, 3, 3}, {{2}, {1}, {1}, 1}, true);
}

void add_norm_cases(std::vector<RuleCase>& cases) {
  const auto norm = [&](OpKind kind, const std::string& name, std::vector<int64_t> x_shape,
                        std::vector<int64_t> w_shape, ir::Attrs attrs, int num_weights) {
    cases.push_back({std::string(op_name(kind)) + name, [=](CaseBuilder& c) {
                       std::vector<ValueId> operands = {c.parameter(x_shape, -2, 2)};
                       for (int i = 0; i < num_weights; ++i) operands.push_back(c.parameter(w_shape, 0.5, 1.5));
                       return c.loss_of({c.b.add(kind, operands, attrs)[0]});
                     }});
    cases.back().tolerance = kF32Statistics;
  };
  for (int weights : {0, 1, 2}) {
    const std::string with = " with " + std::to_string(weights) + " weights";
    norm(OpKind::kLayerNorm, with, {2, 3, 4}, {4}, ir::LayerNormAttrs{1, 1e-5}, weights);
    norm(OpKind::kGroupNorm, with, {2, 4, 3}, {4}, ir::GroupNormAttrs{2, 1e-5}, weights);
    norm(OpKind::kBatchNorm, with, {3, 2, 2, 2}, {2}, ir::BatchNormAttrs{0.1, 1e-5}, weights);
    if (weights < 2) norm(OpKind::kRmsNorm, with, {2, 3, 4}, {4}, ir::LayerNormAttrs{1, 1e-5}, weights);
  }
  norm(OpKind::kLayerNorm, " over two axes", {2, 3, 4}, {3, 4}, ir::LayerNormAttrs{2, 1e-5}, 2);
  norm(OpKind::kRmsNorm, " over two axes", {2, 3, 4}, {3, 4}, ir::LayerNormAttrs{2, 1e-5}, 1);
  norm(OpKind::kGroupNorm, " of images", {2, 4, 2, 3}, {4}, ir::GroupNormAttrs{4, 1e-5}, 2);
}

void add_pooling_cases(std::vector<RuleCase>& cases) {
  const auto pool = [&](const std::string& name, std::vector<int64_t> shape, ir::PoolAttrs attrs) {
    for (OpKind kind : {OpKind::kMaxPool2d, OpKind::kAvgPool2d})
      cases.push_back({std::string(op_name(kind)) + name,
                       [=](CaseBuilder& c) { return c.loss_of({c.b.add(kind, {c.spaced(shape)}, attrs)[0]}); }});
  };
  pool("", {1, 2, 4, 6}, {{2, 2}, {2, 2}, {0, 0}, {1, 1}, false});
  pool(" with overlap and padding", {2, 1, 5, 5}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, false});
  pool(" with ceil_mode", {1, 1, 5, 6}, {{2, 3}, {2, 2}, {0, 0}, {1, 1}, true});
}

void add_attention_cases(std::vector<RuleCase>& cases) {
  struct Variant {
    std::string name;
    int64_t heads = 2, kv_heads = 2, rows = 4, columns = 4;
    bool causal = false;
    std::string mask, attends;
  };
  for (const Variant& v :
       {Variant{"", 2, 2, 4, 4, false, ""}, Variant{" causal", 2, 2, 4, 4, true, ""},
        Variant{" of other lengths", 2, 2, 3, 5, false, ""}, Variant{" with grouped heads", 4, 2, 4, 4, true, ""},
        Variant{" with a bool mask", 2, 2, 4, 4, false, "bool"},
        Variant{" with a float mask", 2, 1, 4, 4, false, "float"},
        Variant{" of a window", 2, 2, 4, 4, false, "", "q - k >= 0 & -q + k + 1 >= 0"},
        Variant{" within documents", 4, 2, 4, 4, false, "documents", "q - k >= 0 & r0[q] - r0[k] = 0"}}) {
    cases.push_back({"scaled_dot_product_attention" + v.name, [=](CaseBuilder& c) {
                       const ValueId q = c.parameter({2, v.heads, v.rows, 8}),
                                     k = c.parameter({2, v.kv_heads, v.columns, 8}),
                                     value = c.parameter({2, v.kv_heads, v.columns, 8});
                       ValueId mask;
                       if (v.mask == "bool") {
                         // Row i attends to columns 0..i: no row without a column.
                         std::vector<int64_t> lower;
                         for (int64_t i = 0; i < v.rows * v.columns; ++i)
                           lower.push_back(i % v.columns <= i / v.columns ? 1 : 0);
                         mask = c.b.cast(c.b.constant_i64({v.rows, v.columns}, lower), DType::kBool);
                       } else if (v.mask == "float") {
                         mask = c.constant({2, 1, v.rows, v.columns});
                       } else if (v.mask == "documents") {
                         mask = c.b.constant_i64({2, 1, 1, 4}, {0, 0, 1, 1, 5, 5, 5, 2});
                       }
                       return c.loss_of({c.b.add(OpKind::kSdpa, {q, k, value, mask},
                                                 ir::SdpaAttrs{v.causal, 1 / std::sqrt(8.0), v.attends})[0]});
                     }});
    cases.back().tolerance = kF32Statistics;
  }
  for (const std::vector<int64_t>& table : {std::vector<int64_t>{4, 6}, {2, 1, 4, 6}, {6}})
    cases.push_back({"rotary with tables of rank " + std::to_string(table.size()), [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({2, 3, 4, 6});
                       return c.loss_of({c.b.add1(OpKind::kRotary, {x, c.constant(table), c.constant(table)})});
                     }});
  cases.push_back({"dropout", [](CaseBuilder& c) {
                     const ValueId x = c.parameter({4, 6});
                     return c.loss_of(
                         {c.b.add1(OpKind::kDropout, {x, c.b.graph().seed_step(), c.b.graph().sample_offset()},
                                   ir::DropoutAttrs{0.4, 12345, 1, 4, 6})});
                   }});
  cases.back().no_torch = "LibTorch has another generator";
}

void add_loss_cases(std::vector<RuleCase>& cases) {
  for (double smoothing : {0.0, 0.1})
    for (bool weighted : {false, true}) {
      const std::string name = std::string(weighted ? " weighted" : "") + (smoothing > 0 ? " smoothed" : "");
      cases.push_back({"cross_entropy_sum" + name, [=](CaseBuilder& c) {
                         const ValueId x = c.parameter({5, 4});
                         const ValueId target = c.b.constant_i64({5}, {1, 0, -100, 3, 2});
                         const ValueId sum = c.b.add(OpKind::kCrossEntropySum,
                                                     {x, target, weighted ? c.constant({4}, 0.5, 1.5) : ValueId()},
                                                     ir::CrossEntropyAttrs{-100, smoothing})[0];
                         return c.b.add1(OpKind::kMul, {sum, c.b.scalar(0.25, c.dtype())});
                       }});
      cases.back().tolerance = kF32Statistics;
    }
  for (const bool full : {false, true}) {
    cases.push_back({std::string("linear_cross_entropy") + (full ? " with everything" : ""), [=](CaseBuilder& c) {
                       const ValueId x = c.parameter({2, 3, 5}), w = c.parameter({4, 5}),
                                     bias = full ? c.parameter({4}) : ValueId();
                       const ValueId target = c.b.constant_i64({6}, {1, 0, -100, 3, 2, 1});
                       return c.b.add(OpKind::kLinearCrossEntropy,
                                      {x, w, target, bias, full ? c.constant({4}, 0.5, 1.5) : ValueId()},
                                      ir::LinearCrossEntropyAttrs{-100, full ? 0.1 : 0.0, c.dtype(), 3})[0];
                     }});
    cases.back().tolerance = kF32Statistics;
  }
  cases.push_back({"cross_entropy_sum of images", [](CaseBuilder& c) {
                     const ValueId x = c.parameter({2, 3, 4});
                     return c.b.add(OpKind::kCrossEntropySum, {x, c.indices({2, 4}, 3)},
                                    ir::CrossEntropyAttrs{1, 0.0})[0];
                   }});
  cases.back().tolerance = kF32Statistics;
  for (bool weighted : {false, true})
    cases.push_back({"nll_sum" + std::string(weighted ? " weighted" : ""), [=](CaseBuilder& c) {
                       const ValueId x = c.b.add1(OpKind::kLogSoftmax, {c.parameter({5, 4})}, ir::DimAttrs{1});
                       return c.loss_of({c.b.add1(OpKind::kNllSum,
                                                  {x, c.b.constant_i64({5}, {1, 0, 2, 3, 2}),
                                                   weighted ? c.constant({4}, 0.5, 1.5) : ValueId()},
                                                  ir::CrossEntropyAttrs{2, 0.0})});
                     }});
}

}  // namespace

void add_layer_cases(std::vector<RuleCase>& cases) {
  add_product_cases(cases);
  add_norm_cases(cases);
  add_pooling_cases(cases);
  add_attention_cases(cases);
  add_loss_cases(cases);
}

}  // namespace piper::numeric
