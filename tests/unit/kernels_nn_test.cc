// Kernels of runtime/kernels against LibTorch: normalisation, convolution, pooling, attention, losses.

#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using Fixture = Seeded<11>;

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask, bool causal,
                     double scale) {
  const int64_t groups = q.size(1) / k.size(1);
  at::Tensor scores = at::matmul(q, k.repeat_interleave(groups, 1).transpose(-1, -2)) * scale;
  if (causal) {
    const at::Tensor lower = at::ones({q.size(2), k.size(2)}, at::kBool).tril();
    scores = scores.masked_fill(lower.logical_not(), -INFINITY);
  }
  if (mask.defined())
    scores = mask.scalar_type() == at::kBool ? scores.masked_fill(mask.logical_not(), -INFINITY) : scores + mask;
  return at::matmul(at::_safe_softmax(scores, -1), v.repeat_interleave(groups, 1));
}

struct Heads {
  int64_t batch, heads, key_heads, queries, keys, dim;
};

// `attends`: the predicate that the kernels have instead of the mask, and the vectors that it reads.
void check_attention(const Heads& h, const at::Tensor& mask, bool causal, const std::string& attends = {},
                     const at::Tensor& vectors = {}) {
  const double scale = 0.4;
  std::vector<Attr> attrs{{"is_causal", causal}, {"scale", scale}};
  if (!attends.empty()) attrs.push_back({"attends", attends});
  const at::Tensor& given = attends.empty() ? mask : vectors;
  const at::Tensor q = normal({h.batch, h.heads, h.queries, h.dim}), k = normal({h.batch, h.key_heads, h.keys, h.dim}),
                   v = normal({h.batch, h.key_heads, h.keys, h.dim}), g = normal(q.sizes());
  const auto forward = [=](const Tensors& t) { return attention(t[0], t[1], t[2], mask, causal, scale); };
  check({"scaled_dot_product_attention", attrs, {q, k, v, given}, [&](const Tensors& t) {
           return Tensors{forward(t), at::Tensor()};
         }});
  at::Tensor y = at::empty(q.sizes()), lse = at::empty({h.batch, h.heads, h.queries});
  REQUIRE(run_kernel("scaled_dot_product_attention", {y, lse}, {q, k, v, given}, attrs).ok());
  check({"scaled_dot_product_attention_backward",
         attrs,
         {g, q, k, v, y, lse, given},
         [&](const Tensors& t) { return gradients(forward, {t[1], t[2], t[3]}, {0, 1, 2}, t[0]); },
         {false, false, false, false, false, true},
         {},
         true,
         false,
         2e-5,
         16});  // statistics are those of the operands before they were rounded
}

}  // namespace

TEST_CASE_METHOD(Fixture, "softmax and its gradient equal LibTorch on any axis") {
  const at::Tensor x = normal({3, 5, 17}), g = normal({3, 5, 17});
  for (const int64_t dim : {int64_t{2}, int64_t{1}, int64_t{0}}) {
    const std::vector<Attr> attrs{{"dim", dim}};
    check({"softmax", attrs, {x}, [=](const Tensors& t) { return Tensors{at::softmax(t[0], dim)}; }});
    check({"log_softmax", attrs, {x}, [=](const Tensors& t) { return Tensors{at::log_softmax(t[0], dim)}; }});
    check({"softmax_backward", attrs, {g, at::softmax(x, dim)}, [=](const Tensors& t) {
             return Tensors{t[1] * (t[0] - (t[0] * t[1]).sum(dim, true))};
           }});
    check({"log_softmax_backward", attrs, {g, at::log_softmax(x, dim)}, [=](const Tensors& t) {
             return Tensors{t[0] - at::exp(t[1]) * t[0].sum(dim, true)};
           }});
  }
}

TEST_CASE_METHOD(Fixture, "layer and root-mean-square normalisation equal LibTorch both ways") {
  const at::Tensor x = normal({3, 5, 33}) + 0.3, w = normal({33}), b = normal({33}), g = normal({3, 5, 33});
  const std::vector<Attr> attrs{{"axes", int64_t{1}}, {"eps", 1e-5}};
  const auto mean_of = [](const at::Tensor& t) { return t.mean(-1).reshape({-1}); };
  const auto rstd_of = [](const at::Tensor& t) { return (t.var(-1, false) + 1e-5).rsqrt().reshape({-1}); };
  const auto rms_of = [](const at::Tensor& t) { return (t * t).mean(-1).add(1e-5).rsqrt().reshape({-1}); };
  const auto rms = [=](const Tensors& t) {
    const at::Tensor y = t[0] * rms_of(t[0]).reshape({3, 5, 1});
    return t.size() > 1 && t[1].defined() ? y * t[1] : y;
  };
  for (const bool affine : {true, false}) {
    const at::Tensor weight = affine ? w : at::Tensor(), bias = affine ? b : at::Tensor();
    const auto layer = [](const Tensors& t) {
      const bool has = t.size() > 1 && t[1].defined();
      return at::layer_norm(t[0], {33}, has ? t[1] : at::Tensor(), has ? t[2] : at::Tensor(), 1e-5);
    };
    check({"layer_norm",
           attrs,
           {x, weight, bias},
           [&](const Tensors& t) { return Tensors{layer(t), mean_of(t[0]), rstd_of(t[0])}; },
           {},
           {false, true, true}});
    check({"layer_norm_backward_input",
           attrs,
           {g, x, mean_of(x), rstd_of(x), weight},
           [&](const Tensors& t) {
             return gradients([&](const Tensors& in) { return layer({in[0], t[4], t[4]}); }, {t[1]}, {0}, t[0]);
           },
           {false, false, true, true}});
    check({"rms_norm",
           attrs,
           {x, weight},
           [&](const Tensors& t) { return Tensors{rms(t), rms_of(t[0])}; },
           {},
           {false, true}});
    check({"rms_norm_backward_input",
           attrs,
           {g, x, rms_of(x), weight},
           [&](const Tensors& t) {
             return gradients([&](const Tensors& in) { return rms({in[0], t[3]}); }, {t[1]}, {0}, t[0]);
           },
           {false, false, true}});
  }
  check({"layer_norm_backward_weight",
         attrs,
         {g, x, mean_of(x), rstd_of(x)},
         [&](const Tensors& t) {
           return gradients([](const Tensors& in) { return at::layer_norm(in[0], {33}, in[1], in[2], 1e-5); },
                            {t[1], w.to(at::kDouble), b.to(at::kDouble)}, {1, 2}, t[0]);
         },
         {false, false, true, true}});
  check({"rms_norm_backward_weight",
         attrs,
         {g, x, rms_of(x)},
         [&](const Tensors& t) { return gradients(rms, {t[1], w.to(at::kDouble)}, {1}, t[0]); },
         {false, false, true}});
}

TEST_CASE_METHOD(Fixture, "rotary embeddings turn the halves of the last axis against each other") {
  const auto turned = [](const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    const std::vector<at::Tensor> halves = x.chunk(2, -1);
    return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
  };
  // Wider than a block; tables for all samples, for each of them, and of half the elements' type.
  for (const int64_t width : {6, 1030})
    for (const Ints& table : {Ints{5, width}, Ints{2, 1, 5, width}}) {
      const at::Tensor x = normal({2, 3, 5, width}), cos = normal(table), sin = normal(table);
      for (const bool wide_tables : {false, true}) {
        const std::vector<bool> f32 = {false, wide_tables, wide_tables};
        const bool f64 = !wide_tables;
        check({"rotary",
               {},
               {x, cos, sin},
               [&](const Tensors& t) { return Tensors{turned(t[0], t[1], t[2])}; },
               f32,
               {},
               true,
               f64});
        check({"rotary_backward",
               {},
               {x, cos, sin},
               [&](const Tensors& t) {
                 return gradients([&](const Tensors& in) { return turned(in[0], t[1], t[2]); }, {t[0]}, {0}, t[0]);
               },
               f32,
               {},
               true,
               f64});
      }
      // In f32 to the bit.
      at::Tensor y = at::empty_like(x);
      REQUIRE(run_kernel("rotary", {y}, {x, cos, sin}).ok());
      CHECK(at::equal(y, turned(x, cos, sin)));
    }
  CHECK(run_kernel("rotary", {at::empty({2, 3})}, {at::empty({2, 3}), at::empty({2, 3}), at::empty({2, 3})})
            .error()
            .message.find("has no halves of a last axis") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "the kernels of layer_norm and attention equal their operators bitwise") {
  const at::Tensor x = normal({16, 64}), w = normal({64}), b = normal({64});
  at::Tensor y = at::empty({16, 64}), mean = at::empty({16}), rstd = at::empty({16});
  REQUIRE(run_kernel("layer_norm", {y, mean, rstd}, {x, w, b}, {{"axes", int64_t{1}}, {"eps", 1e-5}}).ok());
  CHECK(at::equal(y, std::get<0>(at::native_layer_norm(x, {64}, w, b, 1e-5))));
  const at::Tensor q = normal({2, 3, 9, 8}), k = normal({2, 3, 9, 8}), v = normal({2, 3, 9, 8});
  at::Tensor out = at::empty({2, 3, 9, 8}), lse = at::empty({2, 3, 9});
  // With a mask, which no own kernel takes.
  const at::Tensor mask = normal({9, 9});
  REQUIRE(
      run_kernel("scaled_dot_product_attention", {out, lse}, {q, k, v, mask}, {{"is_causal", false}, {"scale", 0.5}})
          .ok());
  const auto [expected, expected_lse] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, false, mask, 0.5);
  CHECK(at::equal(out, expected));
  CHECK(at::equal(lse, expected_lse));
}

TEST_CASE_METHOD(Fixture, "group and batch normalisation equal LibTorch both ways") {
  const at::Tensor x = normal({4, 6, 5, 3}), w = normal({6}), b = normal({6}), g = normal({4, 6, 5, 3});
  const at::Tensor wide_w = w.to(at::kDouble), wide_b = b.to(at::kDouble);
  const std::vector<Attr> group{{"groups", int64_t{2}}, {"eps", 1e-5}};
  const auto [y, mean, rstd] = at::native_group_norm(x, w, b, 4, 6, 15, 2, 1e-5);
  const auto group_norm = [](const Tensors& t) { return at::group_norm(t[0], 2, t[1], t[2], 1e-5); };
  check({"group_norm",
         group,
         {x, w, b},
         [&](const Tensors& t) {
           const auto [out, m, r] = at::native_group_norm(t[0], t[1], t[2], 4, 6, 15, 2, 1e-5);
           return Tensors{out, m, r};
         },
         {},
         {false, true, true}});
  const Tensors group_inputs{g, x, mean, rstd};
  check({"group_norm_backward_input",
         group,
         {g, x, mean, rstd, w},
         [&](const Tensors& t) { return gradients(group_norm, {t[1], wide_w, wide_b}, {0}, t[0]); },
         {false, false, true, true},
         {},
         true,
         false});
  check({"group_norm_backward_weight",
         group,
         group_inputs,
         [&](const Tensors& t) { return gradients(group_norm, {t[1], wide_w, wide_b}, {1, 2}, t[0]); },
         {false, false, true, true},
         {},
         true,
         false,
         1e-4});

  const std::vector<Attr> batch{{"momentum", 0.1}, {"eps", 1e-5}};
  const auto batch_norm = [](const Tensors& t) {
    return at::batch_norm(t[0], t[1], t[2], {}, {}, true, 0.1, 1e-5, false);
  };
  const at::Tensor batch_mean = x.mean({0, 2, 3}), batch_rstd = (x.var({0, 2, 3}, false) + 1e-5).rsqrt();
  check({"batch_norm",
         batch,
         {x, w, b},
         [&](const Tensors& t) {
           return Tensors{batch_norm(t), t[0].mean({0, 2, 3}), (t[0].var({0, 2, 3}, false) + 1e-5).rsqrt()};
         },
         {false, true, true},
         {false, true, true},
         true,
         false});
  check({"batch_norm_backward_input",
         batch,
         {g, x, batch_mean, batch_rstd, w},
         [&](const Tensors& t) { return gradients(batch_norm, {t[1], wide_w, wide_b}, {0}, t[0]); },
         {false, false, true, true, true},
         {},
         true,
         false});
  check({"batch_norm_backward_weight",
         batch,
         {g, x, batch_mean, batch_rstd},
         [&](const Tensors& t) { return gradients(batch_norm, {t[1], wide_w, wide_b}, {1, 2}, t[0]); },
         {false, false, true, true},
         {},
         true,
         false,
         1e-4});
  // The running statistics move, and absent weights are allowed.
  at::Tensor running_mean = at::zeros({6}), running_var = at::ones({6}), out = at::empty(x.sizes());
  REQUIRE(run_kernel("batch_norm", {out, at::empty({6}), at::empty({6})}, {x, {}, {}, running_mean, running_var}, batch)
              .ok());
  CHECK(close(running_mean, batch_mean * 0.1, 1e-5));
  CHECK(close(running_var, x.var({0, 2, 3}, true) * 0.1 + 0.9, 1e-5));
}

TEST_CASE_METHOD(Fixture, "convolutions and pooling equal LibTorch both ways") {
  struct Shape {
    Ints x, w, stride, padding, dilation;
    int64_t groups;
  };
  for (const Shape& s :
       {Shape{{2, 3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
        Shape{{2, 4, 9, 8}, {6, 2, 3, 2}, {2, 1}, {0, 1}, {1, 2}, 2}, Shape{{2, 3, 12}, {4, 3, 3}, {2}, {1}, {1}, 1},
        Shape{{2, 4, 5, 4, 6}, {6, 2, 2, 3, 2}, {1, 2, 1}, {0, 1, 1}, {2, 1, 1}, 2}}) {
    const at::Tensor x = normal(s.x), w = normal(s.w), b = normal({s.w[0]});
    const auto convolve = [&](const Tensors& t) {
      return at::convolution(t[0], t[1], t.size() > 2 ? t[2] : at::Tensor(), s.stride, s.padding, s.dilation, false,
                             Ints(s.stride.size(), 0), s.groups);
    };
    const std::vector<Attr> attrs{
        {"stride", s.stride}, {"padding", s.padding}, {"dilation", s.dilation}, {"groups", s.groups}};
    check({"convolution", attrs, {x, w, b}, [&](const Tensors& t) { return Tensors{convolve(t)}; }});
    const at::Tensor g = normal(convolve({x, w}).sizes());
    std::vector<Attr> input_attrs = attrs, weight_attrs = attrs;
    input_attrs.insert(input_attrs.begin(), {"shape", s.x});
    weight_attrs.insert(weight_attrs.begin(), {"shape", s.w});
    check({"convolution_backward_input",
           input_attrs,
           {g, w},
           [&](const Tensors& t) { return gradients(convolve, {x.to(at::kDouble), t[1]}, {0}, t[0]); },
           {},
           {},
           true,
           true,
           2e-5,
           16});  // LibTorch adds overlapping windows up in the element type
    check({"convolution_backward_weight",
           weight_attrs,
           {g, x},
           [&](const Tensors& t) { return gradients(convolve, {t[1], w.to(at::kDouble)}, {1}, t[0]); },
           {},
           {},
           true,
           true,
           1e-4});
  }
  const at::Tensor x = normal({2, 3, 9, 8});
  for (const bool ceil_mode : {false, true}) {
    const Ints two{2, 2}, one{1, 1}, three{3, 3};
    const std::vector<Attr> attrs{
        {"kernel", three}, {"stride", two}, {"padding", one}, {"dilation", one}, {"ceil_mode", ceil_mode}};
    std::vector<Attr> backward_attrs = attrs;
    backward_attrs.insert(backward_attrs.begin(), {"shape", Ints{2, 3, 9, 8}});
    const auto max_pool = [&](const at::Tensor& t) {
      return at::max_pool2d_with_indices(t, three, two, one, one, ceil_mode);
    };
    const auto avg_pool = [&](const Tensors& t) { return at::avg_pool2d(t[0], three, two, one, ceil_mode); };
    check({"max_pool2d", attrs, {x}, [&](const Tensors& t) {
             const auto [y, i] = max_pool(t[0]);
             return Tensors{y, i};
           }});
    const at::Tensor g = normal(std::get<0>(max_pool(x)).sizes());
    check({"max_pool2d_backward", backward_attrs, {g, std::get<1>(max_pool(x))}, [&](const Tensors& t) {
             return gradients([&](const Tensors& in) { return std::get<0>(max_pool(in[0])); }, {x.to(at::kDouble)}, {0},
                              t[0]);
           }});
    check({"avg_pool2d", attrs, {x}, [&](const Tensors& t) { return Tensors{avg_pool(t)}; }});
    check({"avg_pool2d_backward", backward_attrs, {normal(avg_pool({x}).sizes())}, [&](const Tensors& t) {
             return gradients(avg_pool, {x.to(at::kDouble)}, {0}, t[0]);
           }});
  }
}

TEST_CASE_METHOD(Fixture, "attention equals softmax attention for masks, groups of heads and unequal lengths") {
  check_attention({2, 4, 4, 6, 6, 8}, {}, false);
  check_attention({2, 4, 4, 6, 6, 8}, {}, true);
  check_attention({2, 4, 2, 6, 9, 8}, {}, false);
  check_attention({1, 2, 1, 40, 40, 64}, {}, true);
  // Longer than a strip of queries, a panel of keys and a chunk of the backward, and past the own kernels' keys.
  check_attention({1, 2, 2, 130, 130, 33}, {}, true);
  check_attention({1, 4, 2, 115, 70, 16}, {}, true);
  check_attention({1, 2, 1, 20, 150, 32}, {}, true);
  check_attention({1, 2, 2, 30, 97, 80}, {}, false);
  check_attention({1, 1, 1, 3, 1100, 8}, {}, true);
  check_attention({2, 4, 4, 6, 6, 8}, normal({6, 6}), false);
  check_attention({2, 4, 4, 6, 6, 8}, normal({2, 1, 6, 6}), true);
  // A padding mask as BERT's: per sample, over keys.
  at::Tensor keys = at::ones({2, 1, 1, 6}, at::kBool);
  keys.select(0, 1).narrow(2, 4, 2).fill_(false);
  check_attention({2, 4, 4, 6, 6, 8}, keys, false);
  check_attention({2, 4, 4, 6, 6, 8}, keys.expand({2, 1, 6, 6}), false);
  // A row that may attend to nothing gives 0.
  at::Tensor none = at::ones({6, 6}, at::kBool);
  none.select(0, 2).fill_(false);
  check_attention({2, 4, 4, 6, 6, 8}, none, false);
}

TEST_CASE_METHOD(Fixture, "attention by a predicate equals attention by the mask that it says") {
  const int64_t batch = 2;
  for (const auto& [s, t] : {std::pair<int64_t, int64_t>{7, 7}, {130, 6}, {6, 70}}) {
    const at::Tensor q = at::arange(s, at::kLong).view({1, 1, s, 1}), k = at::arange(t, at::kLong).view({1, 1, 1, t});
    const Heads heads{batch, 2, 1, s, t, 8};
    check_attention(heads, (k <= q).logical_and(k > q - 5), false, "q - k >= 0 & -q + k + 4 >= 0");
    check_attention(heads, (k <= q).logical_or(k < 3), false, "(q - k >= 0 | -k + 2 >= 0)");
    check_attention(heads, k.div(3, "floor") == q.div(3, "floor"), false, "floor(q / 3) - floor(k / 3) = 0");
    // Query 1 attends to nothing.
    check_attention(heads, (k <= q).logical_and(q != 1), false, "q - k >= 0 & !(q - 1 = 0)");
    const at::Tensor numbers = at::randint(0, 3, {batch, 1, 2, std::max(s, t)}, at::kLong);
    numbers.select(2, 1).clamp_(0, 1);
    const auto by_query = [&](int64_t i) { return numbers.select(2, i).narrow(2, 0, s).view({batch, 1, s, 1}); };
    const auto by_key = [&](int64_t i) { return numbers.select(2, i).narrow(2, 0, t).view({batch, 1, 1, t}); };
    check_attention(heads, (k <= q).logical_and(by_query(0) == by_key(0)), false, "q - k >= 0 & r0[q] - r0[k] = 0",
                    numbers.narrow(2, 0, 1));
    check_attention(heads, (by_key(1) <= by_query(0)).logical_and(k <= q), false, "q - k >= 0 & r0[q] - r1[k] >= 0",
                    numbers);
    // At a place that a vector says.
    const at::Tensor twice = by_query(0).add(1).mul(2).expand({batch, 1, s, 1}), first = numbers.select(2, 0);
    const at::Tensor of_query = first.gather(2, by_query(1).view({batch, 1, s})).view({batch, 1, s, 1});
    check_attention(heads, (k <= q).logical_and(of_query == by_key(0)), false, "q - k >= 0 & r0[t1[q]] - r0[k] = 0",
                    numbers);
    check_attention(heads, (k <= q).logical_and(at::where(k < 2, q, k * 0) <= twice), false,
                    "q - k >= 0 & 2*r0[q] - if(-k + 1 >= 0, q, 0) + 2 >= 0", numbers.narrow(2, 0, 1));
    const at::Tensor kept = (numbers.narrow(0, 0, 1).narrow(2, 0, 1) > 0);
    check_attention(heads, kept.narrow(3, 0, t).logical_and(k <= q), false, "q - k >= 0 & t0[k]", kept.to(at::kLong));
  }
  // More queries than any device has in a block.
  const at::Tensor numbers = at::randint(0, 3, {1, 1, 1, 520}, at::kLong);
  const at::Tensor of_query = numbers.view({1, 1, 520, 1}), of_key = numbers.narrow(3, 0, 3).view({1, 1, 1, 3});
  check_attention({1, 1, 1, 520, 3, 4}, of_query >= of_key, false, "r0[q] - r0[k] >= 0", numbers);
}

TEST_CASE_METHOD(Fixture, "attention with sinks equals a softmax that has one score more") {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor q = normal({2, 4, 5, 8}), k = normal({2, 4, 6, 8}), v = normal(k.sizes()),
                   sink = normal({2, 4, 5, 1}), g = normal(q.sizes());
  // The first query attends to nothing but its sink.
  const at::Tensor mask = at::where(at::arange(5).view({5, 1}) == 0, -infinity, at::zeros({5, 6}));
  const auto whole = [&](const Tensors& t) {
    const at::Tensor scores = at::cat({at::matmul(q.to(t[0]), k.to(t[0]).transpose(2, 3)) + mask.to(t[0]), t[0]}, 3);
    return at::matmul(at::softmax(scores, 3).slice(3, 0, 6), v.to(t[0]));
  };
  const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) + mask, lse = at::logsumexp(scores, {3});
  const at::Tensor x = at::matmul(at::_safe_softmax(scores, -1), v), with_sink = at::logaddexp(lse, sink.squeeze(3)),
                   y = whole({sink});
  for (const bool empty_is_above : {false, true}) {
    const at::Tensor given = empty_is_above ? at::where(lse == -infinity, infinity, lse).to(at::kFloat) : lse;
    check({"attention_sink",
           {},
           {x, given, sink},
           [&](const Tensors& t) {
             const at::Tensor share = at::sigmoid(t[1].to(t[0]) - t[2].squeeze(3));
             return Tensors{t[0] * share.unsqueeze(3), at::logaddexp(t[1].to(t[0]), t[2].squeeze(3))};
           },
           {false, true, false},
           {false, true}});
    const Tensors out{at::empty(y.sizes()), at::empty(lse.sizes())};
    REQUIRE(run_kernel("attention_sink", out, {x, given, sink}).ok());
    CHECK(close(out[0], y, 2e-5));
    const at::Tensor attends = at::isfinite(lse);
    CHECK(close(out[1].masked_select(attends), with_sink.masked_select(attends), 2e-5));
  }
  check({"attention_sink_backward",
         {},
         {g, y, with_sink, sink},
         [&](const Tensors& t) {
           return Tensors{-at::exp(t[3] - t[2].to(t[0]).unsqueeze(3)) * (t[0] * t[1]).sum(3, true)};
         },
         {false, false, true, false}});
  // The formula is the derivative, where results and statistics are not rounded.
  check({"attention_sink_backward",
         {},
         {g, y, with_sink, sink},
         [&](const Tensors& t) { return gradients(whole, {t[3]}, {0}, t[0]); },
         {false, false, true, false},
         {},
         true,
         false,
         2e-5,
         0});
}

TEST_CASE_METHOD(Fixture, "attention gives a sample the same bits in every batch and on any number of threads") {
  const std::vector<Attr> attrs{{"is_causal", true}, {"scale", 0.25}};
  const at::Tensor q = normal({3, 4, 50, 16}), k = normal({3, 2, 50, 16}), v = normal(k.sizes()), g = normal(q.sizes());
  const auto run = [&](int64_t first, int64_t count) {
    const auto some = [&](const at::Tensor& t) { return t.narrow(0, first, count); };
    Tensors out{at::empty(some(q).sizes()), at::empty({count, 4, 50}), at::empty(some(q).sizes()),
                at::empty(some(k).sizes()), at::empty(some(k).sizes())};
    REQUIRE(run_kernel("scaled_dot_product_attention", {out[0], out[1]}, {some(q), some(k), some(v)}, attrs).ok());
    REQUIRE(run_kernel("scaled_dot_product_attention_backward", {out[2], out[3], out[4]},
                       {some(g), some(q), some(k), some(v), out[0], out[1]}, attrs)
                .ok());
    return out;
  };
  const Tensors whole = run(0, 3), part = run(1, 2);
  enter_worker_thread(3);
  const Tensors threads = run(0, 3);
  enter_worker_thread(1);
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(at::equal(part[i], whole[i].narrow(0, 1, 2)));
    CHECK(at::equal(threads[i], whole[i]));
  }
}

TEST_CASE_METHOD(Fixture, "losses equal LibTorch with ignored targets, class weights and smoothing") {
  struct Shape {
    Ints logits, target;
  };
  for (const Shape& s : {Shape{{6, 37}, {6}}, Shape{{2, 5, 4}, {2, 4}}, Shape{{2, 5, 2, 3}, {2, 2, 3}}})
    for (const char* weights : {"none", "dense", "every other", "one for all"})
      for (const double smoothing : {0.0, 0.1}) {
        const bool weighted = std::string(weights) != "none";
        const at::Tensor logits = normal(s.logits) * 3, target = integers(5, s.target),
                         many = at::rand({2 * s.logits[1]}) + 0.5,
                         weight = !weighted                               ? at::Tensor()
                                  : std::string(weights) == "dense"       ? many.narrow(0, 0, s.logits[1])
                                  : std::string(weights) == "every other" ? many.slice(0, 0, many.size(0), 2)
                                                                          : many.narrow(0, 0, 1).expand({s.logits[1]});
        target.view({-1}).narrow(0, 1, 2).fill_(-100);
        const std::vector<Attr> attrs{{"ignore_index", int64_t{-100}}, {"label_smoothing", smoothing}};
        const at::Tensor g = at::scalar_tensor(0.3);
        const auto loss = [=](const Tensors& t) {
          return at::cross_entropy_loss(t[0], t[1], weight.defined() ? weight.to(at::kDouble) : weight,
                                        at::Reduction::Sum, -100, smoothing);
        };
        check({"cross_entropy_sum",
               attrs,
               {logits, target, weight},
               [&](const Tensors& t) { return Tensors{loss(t), at::Tensor()}; },
               {false, false, true},
               {},
               true,
               !weighted,
               2e-5,
               weighted ? 0.0 : 2.0});
        at::Tensor sum = at::zeros({}), lse = at::empty({target.numel()});
        REQUIRE(run_kernel("cross_entropy_sum", {sum, lse}, {logits, target, weight}, attrs).ok());
        check({"cross_entropy_backward",
               attrs,
               {g, logits, target, lse, weight},
               [&](const Tensors& t) { return gradients(loss, {t[1], t[2]}, {0}, t[0]); },
               {false, false, false, true, !weighted},
               {},
               true,
               !weighted,
               2e-5,
               weighted ? 0.0 : 2.0});
        check({"cross_entropy_count",
               attrs,
               {target, weight},
               [&](const Tensors& t) {
                 const at::Tensor kept = t[0].masked_select(t[0].ne(-100));
                 return Tensors{weighted ? t[1].index_select(0, kept).sum()
                                         : at::scalar_tensor(static_cast<double>(kept.numel()), at::kDouble)};
               },
               {false, true},
               {},
               true,
               !weighted,
               2e-5,
               weighted ? 0.0 : 2.0});
        if (smoothing != 0) continue;
        const auto nll = [=](const Tensors& t) {
          const at::Tensor w = weight.defined() ? weight.to(at::kDouble) : weight;
          return at::nll_loss_nd(t[0], t[1], w, at::Reduction::Sum, -100);
        };
        check({"nll_sum",
               attrs,
               {logits, target, weight},
               [&](const Tensors& t) { return Tensors{nll(t)}; },
               {false, false, true},
               {},
               true,
               !weighted,
               2e-5,
               weighted ? 0.0 : 2.0});
        check({"nll_backward",
               {{"shape", s.logits}, {"ignore_index", int64_t{-100}}},
               {g, target, weight},
               [&](const Tensors& t) { return gradients(nll, {logits.to(at::kDouble), t[1]}, {0}, t[0]); },
               {false, false, true},
               {},
               true,
               !weighted,
               2e-5,
               weighted ? 0.0 : 2.0});
      }
  // Halves: what f32 gives of the same numbers, rounded; over several blocks of classes.
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const bool strided : {false, true}) {
      const auto form = [&](const at::Tensor& t) { return strided ? strided_copy(t) : t; };
      const at::Tensor logits = form(normal({5, 2500}).to(type)), weight = form((at::rand({2500}) + 0.5).to(type)),
                       target = list({3, -100, 2499, 0, 1024}), g = at::full({}, 0.25, type);
      const at::Tensor logits_f32 = logits.to(at::kFloat), weight_f32 = weight.to(at::kFloat);
      const std::vector<Attr> attrs{{"ignore_index", int64_t{-100}}, {"label_smoothing", 0.1}};
      at::Tensor sum = at::zeros({}, type), lse = at::empty({5}), gradient = form(at::empty({5, 2500}, type));
      at::Tensor sum_f32 = at::zeros({}), lse_f32 = at::empty({5}), gradient_f32 = at::empty({5, 2500});
      REQUIRE(run_kernel("cross_entropy_sum", {sum, lse}, {logits, target, weight}, attrs).ok());
      REQUIRE(run_kernel("cross_entropy_sum", {sum_f32, lse_f32}, {logits_f32, target, weight_f32}, attrs).ok());
      REQUIRE(run_kernel("cross_entropy_backward", {gradient}, {g, logits, target, lse, weight}, attrs).ok());
      REQUIRE(run_kernel("cross_entropy_backward", {gradient_f32},
                         {g.to(at::kFloat), logits_f32, target, lse_f32, weight_f32}, attrs)
                  .ok());
      CHECK(close(lse, lse_f32, 1e-6));
      const double step = type == at::kHalf ? 0x1p-11 : 0x1p-8;
      CHECK(at::allclose(sum.to(at::kFloat), sum_f32, step, 0));
      CHECK(at::allclose(gradient.to(at::kFloat), gradient_f32, step, 1e-7));
    }
  // A target that is no class is named, not read.
  at::Tensor sum = at::zeros({});
  CHECK_THROWS_WITH(run_kernel("cross_entropy_sum", {sum}, {normal({2, 3}), at::full({2}, 7, at::kLong)},
                               {{"ignore_index", int64_t{-100}}, {"label_smoothing", 0.0}})
                        .ok(),
                    Catch::Contains("target 7"));
}

}  // namespace piper::kernels::testing
