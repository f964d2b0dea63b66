// Own kernels of runtime/kernels (dropout, optimizers, lowering kernels), the scratch arena, and what must
// hold for the whole table: every row has a binder and a test and serves f32, bf16 and f16, and steady state allocates
// as listed.
#include <cmath>
#include <set>

#include "runtime/kernels/dropout.h"
#include "schemas/plan/convert_elements.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/optimizers.h"
#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using Fixture = Seeded<13>;

at::Tensor drop(const at::Tensor& x, double p, int64_t key, Ints extents, int64_t seed, int64_t step, int64_t offset) {
  at::Tensor y = at::empty(x.sizes(), x.options());
  const Status status =
      run_kernel("dropout", {y}, {x, list({seed, step}), list({offset})},
                 {{"p", p}, {"key", key}, {"outer", extents[0]}, {"batch", extents[1]}, {"inner", extents[2]}});
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  return y;
}

struct State {
  at::Tensor p, g, m, v;
  explicit State(int64_t n, at::ScalarType type = at::kFloat)
      : p(at::randn({n}).to(type)), g(at::zeros({n}, type)), m(at::zeros({n}, type)), v(at::zeros({n}, type)) {}
};
at::Tensor scalar_of(const void* value, at::ScalarType type) {
  return at::from_blob(const_cast<void*>(value), {}, at::TensorOptions().dtype(type));  // only read
}
// `working`: undefined, or the copy that the call writes. `scale`, `overflow`: nullptr where there is none.
void update(State& s, const plan::Optimizer& o, double decay, int64_t step, int64_t first, int64_t count,
            const float* scale = nullptr, const float* overflow = nullptr, const at::Tensor& working = {}) {
  Tensors states = {s.p, s.g};
  const int num_moments = plan::find_optimizer(o.kind)->num_moments(o);
  if (num_moments > 0) states.push_back(s.m);
  if (num_moments > 1) states.push_back(s.v);
  for (at::Tensor& t : states) t = t.narrow(0, first, count);
  if (working.defined()) {
    states.resize(static_cast<size_t>(plan::find_kernel(o.kind)->outputs) - 1);
    states.push_back(working.narrow(0, first, count));
  }
  Tensors values = {scalar_of(&o.lr, at::kDouble), scalar_of(&step, at::kLong)};
  if (scale != nullptr) values.push_back(scalar_of(scale, at::kFloat));
  if (overflow != nullptr) values.push_back(scalar_of(overflow, at::kFloat));
  const int64_t before = allocation_count();
  REQUIRE(run_kernel(o.kind, states, values, {}, false, {.optimizer = o, .weight_decay = decay}).ok());
  seen_allocations()[o.kind] += allocation_count() - before;
}
// torch.optim's single-tensor form, or its authors' code for PyTorch (lion), operation by operation.
void torch_step(State& s, const plan::Optimizer& o, double decay, int64_t step) {
  at::Tensor g = s.g.clone();
  if (o.kind == "sgd") {
    if (decay != 0) g.add_(s.p, decay);
    if (o.momentum != 0) {
      if (step == 1) s.m.copy_(g);
      else s.m.mul_(o.momentum).add_(g);
      g = o.nesterov ? g.add(s.m, o.momentum) : s.m;
    }
    s.p.add_(g, -o.lr);
    return;
  }
  if (o.kind == "lion") {
    s.p.mul_(1 - o.lr * decay).add_(s.m.mul(o.beta1).add_(g, 1 - o.beta1).sign_(), -o.lr);
    s.m.mul_(o.beta2).add_(g, 1 - o.beta2);
    return;
  }
  if (o.kind == "adamw") s.p.mul_(1 - o.lr * decay);
  else if (decay != 0) g.add_(s.p, decay);
  s.m.lerp_(g, 1 - o.beta1);
  s.v.mul_(o.beta2).addcmul_(g, g, 1 - o.beta2);
  const double bias1 = 1 - std::pow(o.beta1, step), bias2 = 1 - std::pow(o.beta2, step);
  s.p.addcdiv_(s.m, s.v.sqrt().div_(std::sqrt(bias2)).add_(o.eps), -o.lr / bias1);
}

}  // namespace

TEST_CASE("Philox gives the published test vectors") {
  // Random123, kat_vectors: philox4x32-10.
  uint32_t a = 0, b = 0, c = 0, d = 0;
  philox4x32_10(a, b, c, d, 0, 0);
  CHECK((std::array<uint32_t, 4>{a, b, c, d}) ==
        (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  a = 0x243f6a88, b = 0x85a308d3, c = 0x13198a2e, d = 0x03707344;
  philox4x32_10(a, b, c, d, 0xa4093822, 0x299f31d0);
  CHECK((std::array<uint32_t, 4>{a, b, c, d}) ==
        (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_CASE_METHOD(Fixture, "a dropout mask depends on seed, step, key, sample and element alone") {
  const at::Tensor x = at::ones({6, 5, 7});
  const at::Tensor whole = drop(x, 0.3, 42, {1, 6, 35}, 9, 2, 0);
  // Pieces of the batch, at their place in it.
  CHECK(at::equal(whole.narrow(0, 0, 2), drop(x.narrow(0, 0, 2), 0.3, 42, {1, 2, 35}, 9, 2, 0)));
  CHECK(at::equal(whole.narrow(0, 2, 4), drop(x.narrow(0, 2, 4).contiguous(), 0.3, 42, {1, 4, 35}, 9, 2, 2)));
  // The batch axis inside: the element index counts the other axes row-major.
  const at::Tensor inside = drop(at::ones({5, 6, 7}), 0.3, 42, {5, 6, 7}, 9, 2, 0);
  CHECK(at::equal(inside.transpose(0, 1), whole));
  // A strided operand.
  CHECK(at::equal(drop(strided_copy(x), 0.3, 42, {1, 6, 35}, 9, 2, 0), whole));
  // One word an element, as the header says.
  const DropoutStream stream = dropout_stream(9, 2, 42);
  for (const int64_t element : {0, 1, 6, 34}) {
    const uint32_t word =
        dropout_words(stream, 3, static_cast<uint32_t>(element / 4))[static_cast<size_t>(element % 4)];
    const bool kept = static_cast<double>(word >> 8) / 16777216.0 >= 0.3;
    CHECK(whole.view({6, 35})[3][element].item<float>() == (kept ? static_cast<float>(1 / 0.7) : 0.0f));
  }
  CHECK_FALSE(at::equal(whole, drop(x, 0.3, 43, {1, 6, 35}, 9, 2, 0)));
  CHECK_FALSE(at::equal(whole, drop(x, 0.3, 42, {1, 6, 35}, 9, 3, 0)));
  CHECK_FALSE(at::equal(whole, drop(x, 0.3, 42, {1, 6, 35}, 8, 2, 0)));
  CHECK_FALSE(at::equal(whole, drop(x, 0.3, 42, {1, 6, 35}, 9 + (int64_t{1} << 40), 2, 0)));
  const at::Tensor many = drop(at::ones({100, 1000}), 0.3, 1, {1, 100, 1000}, 5, 1, 0);
  CHECK(std::abs((many > 0).to(at::kDouble).mean().item<double>() - 0.7) < 0.005);
  CHECK(at::equal(drop(x, 0.0, 1, {1, 6, 35}, 5, 1, 0), x));
  CHECK(drop(x, 1.0, 1, {1, 6, 35}, 5, 1, 0).count_nonzero().item<int64_t>() == 0);
  check({"dropout",
         {{"p", 0.3}, {"key", int64_t{42}}, {"outer", int64_t{1}}, {"batch", int64_t{6}}, {"inner", int64_t{35}}},
         {at::randn({6, 5, 7}), list({9, 2}), list({0})},
         [&](const Tensors& t) { return Tensors{t[0] * whole.gt(0).to(at::kDouble) / 0.7}; },
         {false, true, true},
         {},
         true,
         true,
         1e-5});
}

TEST_CASE_METHOD(Fixture, "parts of a tensor have the masks that they have in the whole") {
  const int64_t places = 2;
  const at::Tensor whole = drop(at::ones({6, 4, 10}), 0.3, 42, {1, 6, 40}, 9, 2, 0);
  const auto part = [&](const at::Tensor& of, Ints extents, int64_t row, int64_t place) {
    at::Tensor y = at::empty(of.sizes(), of.options());
    const Status status = run_kernel("dropout", {y}, {at::ones_like(of), list({9, 2}), list({0}), list({place})},
                                     {{"p", 0.3},
                                      {"key", int64_t{42}},
                                      {"outer", extents[0]},
                                      {"batch", extents[1]},
                                      {"inner", extents[2]},
                                      {"places", places},
                                      {"row", row}});
    INFO((status.ok() ? "" : status.error().message));
    REQUIRE(status.ok());
    return y;
  };
  for (int64_t place = 0; place < places; ++place) {
    const at::Tensor rows = whole.narrow(1, 2 * place, 2), columns = whole.narrow(2, 5 * place, 5);
    CHECK(at::equal(part(rows, {1, 6, 20}, 20, place), rows));
    CHECK(at::equal(part(columns, {1, 6, 20}, 5, place), columns));
    // For each of two segments a part.
    const at::Tensor of_segments = whole.view({6, 2, 2, 10}).narrow(2, place, 1).reshape({6, 2, 10});
    CHECK(at::equal(part(of_segments, {1, 6, 20}, 10, place), of_segments));
    // The samples are inside of what is cut.
    const at::Tensor inside = whole.transpose(0, 1).narrow(0, 2 * place, 2).contiguous();
    CHECK(at::equal(part(inside, {2, 6, 10}, 20, place), inside));
  }
}

TEST_CASE_METHOD(Fixture, "optimizers follow torch.optim and do not depend on how a range is cut") {
  std::vector<std::pair<plan::Optimizer, double>> settings;
  for (const double decay : {0.0, 0.01})
    for (const char* kind : {"sgd", "sgd momentum", "sgd nesterov", "adam", "adamw", "lion"}) {
      plan::Optimizer o;
      o.kind = std::string(kind).substr(0, std::string(kind).find(' '));
      o.lr = o.kind == "sgd" ? 0.1 : 0.003;
      o.momentum = o.kind == kind ? 0 : 0.9;
      o.nesterov = std::string(kind) == "sgd nesterov";
      settings.emplace_back(o, decay);
    }
  for (const auto& [o, decay] : settings) {
    INFO(o.kind << " momentum " << o.momentum << " nesterov " << o.nesterov << " decay " << decay);
    const int64_t n = 1003;
    State ours(n), cut(n), theirs(n);
    cut.p.copy_(ours.p);
    theirs.p.copy_(ours.p);
    for (int64_t step = 1; step <= 4; ++step) {
      const at::Tensor g = at::randn({n});
      for (State* s : {&ours, &cut, &theirs}) s->g.copy_(g);
      update(ours, o, decay, step, 0, n);
      for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 38}, {39, 900}, {939, 64}})
        update(cut, o, decay, step, first, count);
      torch_step(theirs, o, decay, step);
      CHECK(at::equal(ours.p, cut.p));
      CHECK(ours.g.count_nonzero().item<int64_t>() == 0);
      CHECK(close(ours.p, theirs.p, 1e-6));
      CHECK(close(ours.m, theirs.m, 1e-6));
      CHECK(close(ours.v, theirs.v, 1e-6));
    }
  }
  // The scale multiplies the gradient first.
  plan::Optimizer o;
  State scaled(10), plain(10);
  plain.p.copy_(scaled.p);
  scaled.g.fill_(2);
  plain.g.fill_(1);
  const float half = 0.5f;
  update(scaled, o, 0, 1, 0, 10, &half);
  update(plain, o, 0, 1, 0, 10);
  CHECK(at::equal(scaled.p, plain.p));
}

// torch.optim.Muon, operation by operation, with Newton-Schulz in the type of its matrices.
at::Tensor torch_orthogonal(const at::Tensor& matrix, int64_t steps, double eps) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(eps);
  for (int64_t i = 0; i < steps; ++i) {
    const at::Tensor gram = x.mm(x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, -4.7750, 2.0315), x, 3.4445, 1);
  }
  return tall ? x.t() : x;
}
struct Matrix {
  at::Tensor p, g, m;
};
void torch_muon(Matrix& s, const plan::OptimizerNumbers& o, double decay) {
  s.m.lerp_(s.g, 1 - o.momentum);
  const at::Tensor direction = torch_orthogonal(o.nesterov ? s.g.lerp(s.m, o.momentum) : s.m, o.steps, o.eps);
  const auto rows = static_cast<double>(s.p.size(0)), columns = static_cast<double>(s.p.size(1));
  const double factor = o.adjust == plan::RateByShape::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                                                 : 0.2 * std::sqrt(std::max(rows, columns));
  s.p.mul_(1 - o.lr * decay).add_(direction, -o.lr * factor);
}
void update_matrix(Matrix& s, const plan::OptimizerNumbers& o, double decay, int64_t step, const float* scale = nullptr,
                   const float* overflow = nullptr, const at::Tensor& working = {}) {
  Tensors states = {s.p, s.g, o.momentum > 0 ? s.m : at::Tensor()};
  if (working.defined()) states.push_back(working);
  else if (o.momentum == 0) states.pop_back();
  Tensors values = {scalar_of(&o.lr, at::kDouble), scalar_of(&step, at::kLong)};
  if (scale != nullptr) values.push_back(scalar_of(scale, at::kFloat));
  if (overflow != nullptr) values.push_back(scalar_of(overflow, at::kFloat));
  const int64_t before = allocation_count();
  REQUIRE(run_kernel("muon", states, values, {}, false, {.optimizer = o, .weight_decay = decay}).ok());
  int64_t& most = seen_allocations()["muon"];
  most = std::max(most, allocation_count() - before);
}

// PyTorch's defaults, with a rate.
static plan::OptimizerNumbers muon_numbers() {
  plan::OptimizerNumbers numbers;
  numbers.kind = "muon";
  numbers.lr = 0.02;
  numbers.momentum = 0.95;
  numbers.nesterov = true;
  numbers.eps = 1e-7;
  return numbers;
}

TEST_CASE_METHOD(Fixture, "Muon follows torch.optim.Muon on wide, square and tall matrices") {
  const plan::OptimizerNumbers plain = muon_numbers();
  std::vector<plan::OptimizerNumbers> settings(5, plain);
  settings[1].nesterov = false;
  settings[2].adjust = plan::RateByShape::kMatchRmsAdamw;
  settings[3].momentum = 0.3, settings[3].steps = 2;
  settings[4].momentum = 0, settings[4].nesterov = false;
  for (const plan::OptimizerNumbers& o : settings)
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{24, 70}, {33, 33}, {90, 16}, {1, 40}, {40, 1}}) {
      INFO("momentum " << o.momentum << " steps " << o.steps << " [" << rows << ", " << columns << "]");
      const auto zeros = [&] { return at::zeros({rows, columns}); };
      Matrix ours{at::randn({rows, columns}), zeros(), zeros()},
          theirs{ours.p.to(at::kDouble), {}, zeros().to(at::kDouble)};
      for (int64_t step = 1; step <= 3; ++step) {
        const at::Tensor g = at::randn({rows, columns});
        ours.g.copy_(g);
        theirs.g = g.to(at::kDouble);
        update_matrix(ours, o, 0.1, step);
        torch_muon(theirs, o, 0.1);
        CHECK(ours.g.count_nonzero().item<int64_t>() == 0);
        CHECK(close(ours.p, theirs.p.to(at::kFloat), 2e-5));
        if (o.momentum > 0) CHECK(close(ours.m, theirs.m.to(at::kFloat), 1e-6));
      }
    }
}

TEST_CASE_METHOD(Fixture, "Muon writes working copies, computes halves in f32 and leaves out steps that overflow") {
  const plan::OptimizerNumbers o = muon_numbers();
  const at::Tensor p = at::randn({40, 60}), g = at::randn({40, 60});
  const auto fresh = [&](at::ScalarType type) {
    return Matrix{p.to(type).clone(), g.to(type).clone(), at::zeros({40, 60}, type)};
  };
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    Matrix plain = fresh(at::kFloat), with_copy = fresh(at::kFloat);
    const at::Tensor working = at::zeros({40, 60}, type);
    update_matrix(plain, o, 0.1, 1);
    update_matrix(with_copy, o, 0.1, 1, nullptr, nullptr, working);
    CHECK(at::equal(plain.p, with_copy.p));
    CHECK(at::equal(working, with_copy.p.to(type)));
    const float half = 0.5f, overflow = 1, none = 0;
    const at::Tensor before = with_copy.p.clone(), m_before = with_copy.m.clone();
    with_copy.g.fill_(std::numeric_limits<float>::infinity());
    update_matrix(with_copy, o, 0.1, 2, &half, &overflow, working);
    CHECK(at::equal(with_copy.p, before));
    CHECK(at::equal(with_copy.m, m_before));
    CHECK(with_copy.g.count_nonzero().item<int64_t>() == 0);
    // The factor is the gradient's: of twice the gradient half.
    Matrix twice = fresh(at::kFloat);
    twice.g.mul_(2);
    update_matrix(twice, o, 0.1, 1, &half, &none);
    CHECK(at::equal(twice.p, plain.p));
    Matrix narrow = fresh(type), wide = fresh(at::kFloat);
    wide.p.copy_(narrow.p);
    wide.g.copy_(narrow.g);
    update_matrix(narrow, o, 0.1, 1);
    update_matrix(wide, o, 0.1, 1);
    CHECK(at::equal(narrow.m, wide.m.to(type)));
    CHECK(at::equal(narrow.p, wide.p.to(type)));
  }
}

TEST_CASE_METHOD(Fixture, "optimizers write working copies, compute halves in f32 and leave out steps that overflow") {
  const int64_t n = 2503;
  for (const char* kind : {"sgd", "adam", "adamw", "lion"}) {
    plan::Optimizer o;
    o.kind = kind;
    o.lr = 0.01;
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      INFO(kind << " " << toString(type));
      // Masters in f32: the same bits as without a copy, which is the master rounded.
      State plain(n), with_copy(n);
      with_copy.p.copy_(plain.p);
      const at::Tensor working = at::zeros({n}, type), g = at::randn({n});
      for (State* s : {&plain, &with_copy}) s->g.copy_(g);
      update(plain, o, 0.1, 1, 0, n);
      for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1100}, {1100, 1403}})
        update(with_copy, o, 0.1, 1, first, count, nullptr, nullptr, working);
      CHECK(at::equal(plain.p, with_copy.p));
      CHECK(at::equal(working, with_copy.p.to(type)));
      // An overflow: nothing but the gradient changes.
      const float scale = 0.5f, overflow = 1, none = 0;
      const at::Tensor before = with_copy.p.clone(), copy_before = working.clone();
      with_copy.g.fill_(std::numeric_limits<float>::infinity());
      update(with_copy, o, 0.1, 2, 0, n, &scale, &overflow, working);
      CHECK(at::equal(with_copy.p, before));
      CHECK(at::equal(working, copy_before));
      CHECK(with_copy.g.count_nonzero().item<int64_t>() == 0);
      update(with_copy, o, 0.1, 2, 0, n, &scale, &none, working);
      CHECK_FALSE(at::equal(with_copy.p, before));
      // Parameters that are halves themselves: as f32, rounded once.
      State half(n, type), wide(n);
      half.g.copy_(g);
      for (const auto& [to, from] : {std::pair(&wide.p, &half.p), std::pair(&wide.g, &half.g)}) to->copy_(*from);
      update(half, o, 0.1, 1, 0, n);
      update(wide, o, 0.1, 1, 0, n);
      CHECK(at::equal(half.p, wide.p.to(type)));
      CHECK(at::equal(half.m, wide.m.to(type)));
      CHECK(at::equal(half.v, wide.v.to(type)));
    }
  }
}

TEST_CASE_METHOD(Fixture, "overflows are found, steps with one are not counted, and the loss scale follows") {
  const auto run_counted = [](const std::string& name, const Tensors& outputs, const Tensors& inputs,
                              const std::vector<Attr>& attrs = {}, bool accumulate = false,
                              const TrainingNumbers& numbers = {}) {
    const int64_t before = allocation_count();
    REQUIRE(run_kernel(name, outputs, inputs, attrs, accumulate, numbers).ok());
    seen_allocations()[name] += allocation_count() - before;
  };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const double bad : {double{INFINITY}, double{-INFINITY}, double{NAN}})
      for (const int64_t at : {0, 1023, 1024, 2999}) {
        at::Tensor x = at::randn({3000}).to(type), found = at::full({}, 7.0f);
        run_counted("overflows", {found}, {x});
        CHECK(found.item<float>() == 0);
        x[at] = bad;
        run_counted("overflows", {found}, {x}, {}, true);
        run_counted("overflows", {found}, {x}, {}, true);
        CHECK(found.item<float>() == 2);
      }
  const at::Tensor none = at::zeros({}), some = at::full({}, 2.0f), step = at::full({}, 5, at::kLong);
  run_counted("advance", {step}, {none});
  run_counted("advance", {step}, {some});
  CHECK(step.item<int64_t>() == 6);

  const at::Tensor scale = at::full({}, 65536.0f), good = at::full({}, 1998, at::kLong);
  const auto follow = [&](const at::Tensor& overflow, bool dynamic) {
    run_counted("advance_loss_scale", {scale, good}, {overflow}, {{"dynamic", dynamic}});
    return std::pair(scale.item<float>(), good.item<int64_t>());
  };
  CHECK(follow(none, true) == std::pair(65536.0f, int64_t{1999}));
  CHECK(follow(none, true) == std::pair(131072.0f, int64_t{0}));
  CHECK(follow(none, true) == std::pair(131072.0f, int64_t{1}));
  CHECK(follow(some, true) == std::pair(65536.0f, int64_t{0}));
  good.fill_(1999);
  CHECK(follow(none, false) == std::pair(65536.0f, int64_t{2000}));
  CHECK(follow(some, false) == std::pair(65536.0f, int64_t{0}));
  good.fill_(1999);
  scale.fill_(3e38f);
  CHECK(follow(none, true) == std::pair(3e38f, int64_t{0}));  // twice as much is no number

  const at::Tensor factor = at::empty({}), norm = at::empty({});
  run_counted("unscale", {factor}, {at::full({}, 1024.0f)});
  CHECK(factor.item<float>() == 1.0f / 1024);
  // Clipping sees the norm without the scale, and its factor takes the scale back.
  const TrainingNumbers limit{.clip_grad_norm = 2.5};
  run_counted("clip_scale", {norm, factor}, {at::full({1}, 25.0f * 64 * 64), at::full({}, 64.0f)}, {}, false, limit);
  CHECK(norm.item<float>() == 5.0f);
  CHECK(close(factor, at::full({}, 0.5 / 64), 1e-6));
  run_counted("clip_scale", {norm, factor}, {at::full({1}, 64.0f * 64), at::full({}, 64.0f)}, {}, false, limit);
  CHECK(factor.item<float>() == 1.0f / 64);
}

TEST_CASE_METHOD(Fixture, "elements are converted to the bits that LibTorch converts them to") {
  const at::Tensor all = at::arange(0, 65536, at::kInt).to(at::kShort);
  const at::Tensor bits =
      at::randint(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), {200000}, at::kInt);
  const at::Tensor edges = at::tensor({0.0f, -0.0f, 1.0f, 65504.0f, 65519.0f, 65520.0f, -65520.0f, 6.1e-5f, 5.96e-8f,
                                       2.98e-8f, 2.99e-8f, 1e-8f, 3.4e38f, 3.39e38f, INFINITY, -INFINITY, NAN});
  const at::Tensor small = at::randn({50000}) * 1e-5;
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return at::equal(a.isnan(), b.isnan()) && at::equal(at::nan_to_num(a), at::nan_to_num(b)) &&
           at::equal(a.signbit().logical_or(a.isnan()), b.signbit().logical_or(b.isnan()));
  };
  for (const auto& [type, half] : {std::pair(at::kBFloat16, DType::kBF16), std::pair(at::kHalf, DType::kF16)}) {
    INFO(toString(type));
    const at::Tensor narrow = all.view(type);
    at::Tensor wide = at::empty({65536});
    convert_elements(half, narrow.const_data_ptr(), DType::kF32, wide.mutable_data_ptr(), 65536);
    CHECK(same(wide, narrow.to(at::kFloat)));
    for (const at::Tensor& values : {bits.view(at::kFloat), edges, small, wide}) {
      at::Tensor rounded = at::empty(values.sizes(), type);
      convert_elements(DType::kF32, values.const_data_ptr(), half, rounded.mutable_data_ptr(), values.numel());
      CHECK(same(rounded.to(at::kFloat), values.to(type).to(at::kFloat)));
    }
    const at::ScalarType other_type = type == at::kHalf ? at::kBFloat16 : at::kHalf;
    at::Tensor other = at::empty({65536}, other_type);
    convert_elements(half, narrow.const_data_ptr(), half == DType::kF16 ? DType::kBF16 : DType::kF16,
                     other.mutable_data_ptr(), 65536);
    CHECK(same(other.to(at::kFloat), narrow.to(at::kFloat).to(other_type).to(at::kFloat)));
  }
}

TEST_CASE_METHOD(Fixture, "own element-wise functions are exact to f32 over their range and keep bits under cuts") {
  const at::Tensor x = at::cat({at::linspace(-12, 12, 4001), at::linspace(-0.7, 0.7, 1000),
                                at::tensor({0.0f, 1e-20f, -1e-6f, 50.0f, -50.0f, INFINITY, -INFINITY, NAN})});
  const at::Tensor wide = x.to(at::kDouble);
  at::Tensor y = at::empty_like(x);
  REQUIRE(run_kernel("tanh", {y}, {x}).ok());
  CHECK(at::allclose(y.to(at::kDouble), at::tanh(wide), 3e-7, 1e-30, true));
  at::Tensor part = at::empty({7});
  REQUIRE(run_kernel("tanh", {part}, {x.narrow(0, 35, 7)}).ok());
  CHECK(at::equal(part, y.narrow(0, 35, 7)));
  REQUIRE(run_kernel("erf", {y}, {x}).ok());
  CHECK(at::allclose(y.to(at::kDouble), at::erf(wide), 0, 4e-7, true));
  const at::Tensor finite = x.narrow(0, 0, 5006), wide_finite = finite.to(at::kDouble);
  at::Tensor z = at::empty_like(finite);
  REQUIRE(run_kernel("gelu", {z}, {finite}, {{"approximate", std::string("tanh")}}).ok());
  CHECK(at::allclose(z.to(at::kDouble), at::gelu(wide_finite, "tanh"), 1e-6, 2e-7));
  REQUIRE(
      run_kernel("gelu_backward", {z}, {at::ones_like(finite), finite}, {{"approximate", std::string("tanh")}}).ok());
  CHECK(
      at::allclose(z.to(at::kDouble), at::gelu_backward(at::ones_like(wide_finite), wide_finite, "tanh"), 1e-6, 1e-6));
}

TEST_CASE_METHOD(Fixture, "lowering kernels do what kernels.def says") {
  const at::Tensor x = at::randn({5, 33});
  check({"fill", {{"shape", Ints{3, 4}}, {"value", 2.5}, {"to", std::string("f32")}}, {}, [](const Tensors&) {
           return Tensors{at::full({3, 4}, 2.5, at::kDouble)};
         }});
  check({"copy", {}, {x}, [](const Tensors& t) { return Tensors{t[0].clone()}; }});
  at::Tensor broadcast = at::empty({5, 33});
  REQUIRE(run_kernel("copy", {broadcast}, {x.narrow(0, 0, 1).expand({5, 33})}).ok());
  CHECK(at::equal(broadcast, x.narrow(0, 0, 1).expand({5, 33})));
  check(
      {"square_sum", {}, {x}, [](const Tensors& t) { return Tensors{(t[0] * t[0]).sum()}; }, {}, {true}, true, false});
  for (const double limit : {0.5, 100.0})
    check({"clip_scale",
           {},
           {at::rand({7})},
           [=](const Tensors& t) {
             const at::Tensor norm = t[0].sum().sqrt();
             return Tensors{norm, at::clamp_max(limit / (norm + 1e-6), 1.0)};
           },
           {true},
           {true, true},
           true,
           false,
           2e-5,
           2,
           {.clip_grad_norm = limit}});
  CHECK(run_kernel("clip_scale", {at::empty({}), at::empty({})}, {at::rand({7})}).error().message ==
        "kernel `clip_scale`: the manifest has no limit for the norm of gradients");
  at::Tensor dst = at::ones({5, 33});
  REQUIRE(run_kernel("add_into", {dst}, {x}, {}, true).ok());
  CHECK(at::equal(dst, x + 1));
  at::Tensor sum = at::ones({9});
  add_f32(sum.data_ptr<float>(), x.data_ptr<float>(), 9);
  CHECK(at::equal(sum, x.view({-1}).narrow(0, 0, 9) + 1));
  seen_allocations()["add_into"] = 0;
}

TEST_CASE_METHOD(Fixture, "the optimizer's step is counted, and only updates call the optimizer") {
  int64_t step = 41;
  plan::KernelCall call;
  call.kernel = "advance";
  call.outputs = {{0, 0, DType::kI64, {}, {}}};
  const auto kernel =
      kernels::cpu_library().bind(call, {{hal::Address(reinterpret_cast<std::byte*>(&step)), &call.outputs[0]}}, {});
  REQUIRE(kernel.ok());
  const int64_t before = allocation_count();
  run(**kernel);
  seen_allocations()["advance"] += allocation_count() - before;
  CHECK(step == 42);

  float parameter = 1, gradient = 2;
  double rate = 0.5;
  call.kernel = "sgd";
  call.outputs.assign(2, {0, 0, DType::kF32, {1}, {1}});
  call.inputs = {{0, 0, DType::kF64, {}, {}}, {0, 0, DType::kI64, {}, {}}};
  const std::vector<BoundOperand> outputs = {{hal::Address(reinterpret_cast<std::byte*>(&parameter)), &call.outputs[0]},
                                             {hal::Address(reinterpret_cast<std::byte*>(&gradient)), &call.outputs[1]}};
  const std::vector<BoundOperand> inputs = {{hal::Address(reinterpret_cast<std::byte*>(&rate)), &call.inputs[0]},
                                            {hal::Address(reinterpret_cast<std::byte*>(&step)), &call.inputs[1]}};
  CHECK(kernels::cpu_library().bind(call, outputs, inputs).error().message ==
        "kernel `sgd`: it is outside of an update");
  plan::Optimizer momentum;
  momentum.momentum = 0.9;
  CHECK(kernels::cpu_library().bind(call, outputs, inputs, {.optimizer = momentum}).error().message ==
        "kernel `sgd`: its moments are not those of the optimizer");
}

// Runs after the other cases of this program, which fill the record.
TEST_CASE_METHOD(Fixture, "whole table: every kernel is bound, tested, and allocates only as listed") {
  // Kernels that take temporaries in steady state, from the scratch arena. All others take none.
  const std::map<std::string, int64_t> listed = {
#include "tests/unit/allocation_table.inc"
  };
  std::map<std::string, int64_t> wrong;
  CHECK(refused_halves() == kWithoutHalves);
  for (const plan::KernelInfo& info : plan::kKernels) {
    const std::string name(info.name);
    INFO(name);
    plan::KernelCall call;
    call.kernel = name;
    CHECK(kernels::cpu_library().bind(call, {}, {}).error().code == "R0402");  // known, and refused for its operands
    CHECK(seen_allocations().count(name) == 1);
    const auto found = listed.find(name);
    const int64_t allowed = found == listed.end() ? 0 : found->second;
    if (seen_allocations()[name] > allowed) wrong[name] = seen_allocations()[name];
  }
  for (const auto& [name, count] : wrong) WARN(name << " makes " << count << " allocations");
  CHECK(wrong.empty());
  CHECK(scratch_high_water() > 0);
}

}  // namespace piper::kernels::testing
