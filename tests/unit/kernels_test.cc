// Kernels of runtime/kernels against LibTorch: element-wise, reductions, indexing, products. The tests over
// the whole table are in kernels_own_test.cc.
#include <cmath>
#include <limits>

#include "tests/unit/kernels_testing.h"

namespace piper::kernels::testing {
namespace {

using Fixture = Seeded<7>;

at::Tensor positive(at::IntArrayRef shape) { return at::rand(shape) + 0.1; }

void unary(const std::string& name, const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& f,
           std::vector<Attr> attrs = {}) {
  check({name, std::move(attrs), {x}, [f](const Tensors& in) { return Tensors{f(in[0])}; }});
}
void binary(const std::string& name, const at::Tensor& a, const at::Tensor& b,
            const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& f) {
  check({name, {}, {a, b}, [f](const Tensors& in) { return Tensors{f(in[0], in[1])}; }});
}
// f'(x) g through autograd; `saves_output`: the kernel takes f(x) instead of x.
void backward(const std::string& name, const std::function<at::Tensor(const at::Tensor&)>& f, bool saves_output,
              std::vector<Attr> attrs = {}) {
  const at::Tensor x = normal({5, 33}), g = normal({5, 33});
  check({name,
         std::move(attrs),
         {g, saves_output ? f(x.to(at::kDouble)).to(at::kFloat) : x},
         [=](const Tensors& in) {
           const Tensors inputs{saves_output ? x.to(at::kDouble) : in[1]};
           return gradients([&](const Tensors& t) { return f(t[0]); }, inputs, {0}, in[0]);
         },
         {},
         {},
         true,
         !saves_output});
}

}  // namespace

TEST_CASE_METHOD(Fixture, "element-wise kernels of one operand equal LibTorch") {
  const at::Tensor x = normal({4, 33}), p = positive({4, 33});
  unary("neg", x, [](auto& t) { return at::neg(t); });
  unary("abs", x, [](auto& t) { return at::abs(t); });
  unary("sign", x, [](auto& t) { return at::sign(t); });
  // For elementwise.def each where it is smooth.
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative) \
  unary(#name, at::rand({4, 33}) * ((high) - (low)) + (low), [](auto& t) { return at::name(t); });
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)
#include "schemas/plan/elementwise.def"
  unary("log_sigmoid", x, [](auto& t) { return at::log_sigmoid(t); });
  unary("softplus", x * 15, [](auto& t) { return at::softplus(t); });
  unary("relu", x, [](auto& t) { return at::relu(t); });
  unary("leaky_relu", x, [](auto& t) { return at::leaky_relu(t, 0.2); }, {{"slope", 0.2}});
  unary("gelu", x, [](auto& t) { return at::gelu(t, "none"); }, {{"approximate", std::string("none")}});
  unary("gelu", x, [](auto& t) { return at::gelu(t, "tanh"); }, {{"approximate", std::string("tanh")}});
  unary("pow_scalar", x, [](auto& t) { return at::pow(t, 3); }, {{"exponent", 3.0}});
  unary("pow_scalar", p, [](auto& t) { return at::pow(t, 0.7); }, {{"exponent", 0.7}});
  unary("polygamma", p + 1, [](auto& t) { return at::polygamma(2, t); }, {{"n", int64_t{2}}});
  const double inf = std::numeric_limits<double>::infinity();
  unary("clamp", x, [](auto& t) { return at::clamp(t, -0.5, 0.5); }, {{"min", -0.5}, {"max", 0.5}});
  unary("clamp", x, [](auto& t) { return at::clamp_min(t, 0.1); }, {{"min", 0.1}, {"max", std::string("inf")}});
  unary("clamp", x, [](auto& t) { return t.clone(); }, {{"min", -inf}, {"max", inf}});
  unary("logical_not", x > 0, [](auto& t) { return at::logical_not(t); });
  unary("isnan", at::log(x), [](auto& t) { return at::isnan(t); });
  unary("cast", x, [](auto& t) { return t.to(at::kLong); }, {{"to", std::string("i64")}});
  unary("cast", x, [](auto& t) { return t.to(at::kBool); }, {{"to", std::string("bool")}});
  unary("cast", integers(9, {3, 4}), [](auto& t) { return t.to(at::kDouble); }, {{"to", std::string("f32")}});
}

TEST_CASE_METHOD(Fixture, "element-wise kernels of two and three operands broadcast as LibTorch does") {
  const at::Tensor a = normal({3, 4, 33}), row = normal({33}), column = normal({4, 1}), scalar = normal({});
  const at::Tensor p = positive({3, 4, 33});
  for (const at::Tensor& b : {normal({3, 4, 33}), row, column, scalar}) {
    binary("add", a, b, [](auto& x, auto& y) { return x + y; });
    binary("sub", a, b, [](auto& x, auto& y) { return x - y; });
    binary("mul", a, b, [](auto& x, auto& y) { return x * y; });
    binary("maximum", a, b, [](auto& x, auto& y) { return at::maximum(x, y); });
    binary("minimum", a, b, [](auto& x, auto& y) { return at::minimum(x, y); });
    binary("eq", a, b, [](auto& x, auto& y) { return x.eq(y); });
    binary("ne", a, b, [](auto& x, auto& y) { return x.ne(y); });
    binary("lt", a, b, [](auto& x, auto& y) { return x.lt(y); });
    binary("le", a, b, [](auto& x, auto& y) { return x.le(y); });
    binary("gt", a, b, [](auto& x, auto& y) { return x.gt(y); });
    binary("ge", a, b, [](auto& x, auto& y) { return x.ge(y); });
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative)
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b) \
  binary(#name, a.abs() + 0.1, b.abs() + 0.1, [](auto& x, auto& y) { return at::name(x, y); });
#include "schemas/plan/elementwise.def"
  }
  binary("div", a, p, [](auto& x, auto& y) { return x / y; });
  binary("div", integers(20, {6}) - 10, integers(4, {6}) + 1, [](auto& x, auto& y) { return at::div(x, y, "floor"); });
  binary("add", integers(20, {2, 6}), integers(4, {6}), [](auto& x, auto& y) { return x + y; });
  binary("logical_and", a > 0, p > 0.5, [](auto& x, auto& y) { return at::logical_and(x, y); });
  binary("logical_or", a > 0, p > 0.5, [](auto& x, auto& y) { return at::logical_or(x, y); });
  check({"where", {}, {row > 0, a, scalar}, [](const Tensors& t) { return Tensors{at::where(t[0], t[1], t[2])}; }});
}

TEST_CASE_METHOD(Fixture, "gradients of element-wise kernels equal autograd") {
  backward("tanh_backward", [](auto& x) { return at::tanh(x); }, true);
  backward("sigmoid_backward", [](auto& x) { return at::sigmoid(x); }, true);
  backward("relu_backward", [](auto& x) { return at::relu(x); }, true);
  backward("leaky_relu_backward", [](auto& x) { return at::leaky_relu(x, 0.2); }, false, {{"slope", 0.2}});
  for (const char* form : {"none", "tanh"})
    backward("gelu_backward", [=](auto& x) { return at::gelu(x, form); }, false, {{"approximate", std::string(form)}});
  backward("silu_backward", [](auto& x) { return at::silu(x); }, false);
  backward("log_sigmoid_backward", [](auto& x) { return at::log_sigmoid(x); }, false);
  backward("softplus_backward", [](auto& x) { return at::softplus(x); }, false);
}

TEST_CASE_METHOD(Fixture, "reductions and scans equal LibTorch") {
  const at::Tensor x = normal({3, 5, 7});
  for (const Ints& dims : {Ints{0}, Ints{2}, Ints{0, 2}, Ints{0, 1, 2}})
    for (const bool keepdim : {false, true}) {
      const std::vector<Attr> attrs{{"dims", dims}, {"keepdim", keepdim}};
      unary("sum", x, [&](auto& t) { return at::sum(t, dims, keepdim); }, attrs);
      unary("mean", x, [&](auto& t) { return at::mean(t, dims, keepdim); }, attrs);
      unary("amax", x, [&](auto& t) { return at::amax(t, dims, keepdim); }, attrs);
    }
  // An empty list of axes reduces nothing, unlike LibTorch's.
  for (const char* name : {"sum", "mean", "amax"})
    unary(name, x, [](auto& t) { return t.clone(); }, {{"dims", Ints{}}, {"keepdim", false}});
  unary("cumsum", x, [](auto& t) { return at::cumsum(t, 1); }, {{"dim", int64_t{1}}});
  unary("cumsum", integers(5, {4, 6}), [](auto& t) { return at::cumsum(t, 0); }, {{"dim", int64_t{0}}});
  check({"max_dim", {{"dim", int64_t{1}}, {"k", int64_t{1}}}, {x}, [](const Tensors& in) {
           const auto [values, indices] = at::max(in[0], 1, true);
           return Tensors{values, indices};
         }});
  check({"topk", {{"dim", int64_t{2}}, {"k", int64_t{3}}}, {x}, [](const Tensors& in) {
           const auto [values, indices] = at::topk(in[0], 3, 2);
           return Tensors{values, indices};
         }});
  // All elements of an axis: ties in index order, on any axis.
  for (const int64_t dim : {0, 1})
    check({"topk", {{"dim", dim}, {"k", int64_t{96}}}, {integers(4, {96, 96})}, [=](const Tensors& in) {
             const auto [values, indices] = at::sort(in[0], /*stable=*/true, dim, /*descending=*/true);
             return Tensors{values, indices};
           }});
}

TEST_CASE_METHOD(Fixture, "indexing kernels equal LibTorch") {
  const at::Tensor table = normal({11, 6}), ids = integers(11, {2, 5}), x = normal({4, 6, 3});
  check(
      {"embedding", {{"padding_idx", int64_t{-1}}, {"scale_grad_by_freq", false}}, {table, ids}, [](const Tensors& t) {
         return Tensors{at::embedding(t[0], t[1])};
       }});
  for (const int64_t padding : {int64_t{-1}, int64_t{3}})
    for (const bool by_frequency : {false, true})
      check({"embedding_backward",
             {{"shape", Ints{11, 6}}, {"padding_idx", padding}, {"scale_grad_by_freq", by_frequency}},
             {normal({2, 40, 6}), integers(11, {2, 40})},
             [=](const Tensors& t) {
               return Tensors{at::embedding_dense_backward(t[0], t[1], 11, padding, by_frequency)};
             }});
  const Attr dim{"dim", int64_t{1}};
  const at::Tensor index = integers(6, {4, 2, 3}), source = normal({4, 2, 3});
  check({"gather", {dim}, {x, index}, [](const Tensors& t) { return Tensors{at::gather(t[0], 1, t[1])}; }});
  const at::Tensor distinct = at::tensor({5, 2}, at::kLong).view({1, 2, 1}).expand({4, 2, 3}).contiguous();
  check({"scatter", {dim}, {x, distinct, source}, [](const Tensors& t) {
           return Tensors{at::scatter(t[0], 1, t[1], t[2])};
         }});
  check({"scatter_add", {dim}, {x, index, source}, [](const Tensors& t) {
           return Tensors{at::scatter_add(t[0], 1, t[1], t[2])};
         }});
  const at::Tensor list = integers(6, {2});
  check({"index_select", {dim}, {x, list}, [](const Tensors& t) { return Tensors{at::index_select(t[0], 1, t[1])}; }});
  check({"index_add", {dim}, {x, list, source}, [](const Tensors& t) {
           return Tensors{at::index_add(t[0], 1, t[1], t[2])};
         }});
  check({"cat", {dim}, {x, source, normal({4, 1, 3})}, [](const Tensors& t) {
           return Tensors{at::cat({t[0], t[1], t[2]}, 1)};
         }});
  check({"pad", {{"low", Ints{0, 2, -1}}, {"high", Ints{0, -1, 3}}, {"value", 0.5}}, {x}, [](const Tensors& t) {
           return Tensors{at::constant_pad_nd(t[0], {-1, 3, 2, -1, 0, 0}, 0.5)};
         }});
  check({"slice_backward",
         {{"shape", Ints{4, 6, 3}},
          {"dim", int64_t{1}},
          {"start", int64_t{1}},
          {"end", int64_t{6}},
          {"step", int64_t{2}}},
         {normal({4, 3, 3})},
         [](const Tensors& t) { return Tensors{at::slice_backward(t[0], {4, 6, 3}, 1, 1, 6, 2)}; }});
}

TEST_CASE_METHOD(Fixture, "products equal LibTorch for every layout of their operands") {
  const auto product = [](const Tensors& t) { return Tensors{at::matmul(t[0], t[1])}; };
  check({"matmul", {}, {normal({5, 7}), normal({7, 4})}, product});
  check({"matmul", {}, {normal({3, 5, 7}), normal({7, 4})}, product});
  check({"matmul", {}, {normal({2, 3, 5, 7}), normal({2, 3, 7, 4})}, product});
  check({"matmul", {}, {normal({2, 1, 5, 7}), normal({3, 7, 4})}, product});
  check({"matmul", {}, {normal({1, 7}), normal({2, 7, 4})}, product});
  // Heads cut out of one row, as attention does it.
  const at::Tensor q = normal({2, 5, 3 * 4}), k = normal({2, 5, 3 * 4});
  const at::Tensor heads_q = q.view({2, 5, 3, 4}).transpose(1, 2);
  const at::Tensor heads_k = k.view({2, 5, 3, 4}).permute({0, 2, 3, 1});
  at::Tensor scores = at::empty({2, 3, 5, 5});
  REQUIRE(run_kernel("matmul", {scores}, {heads_q, heads_k}).ok());
  CHECK(close(scores, at::matmul(heads_q, heads_k), 1e-5));
  at::Tensor y = at::zeros({2, 5, 3 * 4}), v = normal({2, 3, 5, 4});
  REQUIRE(run_kernel("matmul", {y.view({2, 5, 3, 4}).transpose(1, 2)}, {scores, v}).ok());
  CHECK(close(y, at::matmul(scores, v).transpose(1, 2).reshape({2, 5, 12}), 1e-5));

  for (const Ints& rows : {Ints{}, Ints{6}, Ints{2, 3}, Ints{2, 3, 4}}) {
    Ints in = rows, out = rows;
    in.push_back(7);
    out.push_back(5);
    check({"linear", {}, {normal(in), normal({5, 7}), normal({5})}, [](const Tensors& t) {
             return Tensors{at::linear(t[0], t[1], t[2])};
           }});
    check({"linear", {}, {normal(in), normal({5, 7}), {}}, [](const Tensors& t) {
             return Tensors{at::linear(t[0], t[1])};
           }});
    check({"linear_backward_input", {}, {normal(out), normal({5, 7})}, [](const Tensors& t) {
             return Tensors{at::matmul(t[0], t[1])};
           }});
    check({"linear_backward_weight", {}, {normal(out), normal(in)}, [](const Tensors& t) {
             return Tensors{at::matmul(t[0].reshape({-1, 5}).t(), t[1].reshape({-1, 7}))};
           }});
  }
}

// run_kernel() ends where a kernel takes more scratch than the plan's bound.
TEST_CASE_METHOD(Fixture, "products of many rows in half types equal f64, within the bound of their scratch") {
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const int64_t rows : {5, 777, 6000})
      for (const int64_t out : {1, 3, 8, 40})
        for (const int64_t in : {1, 4, 17, 70}) {
          INFO(toString(type) << " " << rows << " " << out << " " << in);
          const at::Tensor x = normal({rows, in}).to(type), w = normal({out, in}).to(type),
                           g = normal({rows, out}).to(type);
          const auto same = [&](const std::string& name, const Tensors& inputs, const at::Tensor& wanted,
                                double terms) {
            at::Tensor made = at::empty(wanted.sizes(), type);
            REQUIRE(run_kernel(name, {made}, inputs, {}).ok());
            // One rounding of the result; sums in f32 of about sqrt(terms), whose terms cancel.
            CHECK((wide(made) - wanted).abs().le(wanted.abs() / 128 + 1e-3 * std::sqrt(terms)).all().item<bool>());
          };
          same("linear", {x, w, {}}, at::matmul(wide(x), wide(w).t()), static_cast<double>(in));
          same("linear_backward_input", {g, w}, at::matmul(wide(g), wide(w)), static_cast<double>(out));
          same("linear_backward_weight", {g, x}, at::matmul(wide(g).t(), wide(x)), static_cast<double>(rows));
          same("matmul", {x, w.t().contiguous()}, at::matmul(wide(x), wide(w).t()), static_cast<double>(in));
        }
}

TEST_CASE_METHOD(Fixture, "operands that do not fit are refused at bind, and say why") {
  const auto refused = [](const std::string& name, const Tensors& out, const Tensors& in, std::vector<Attr> attrs,
                          bool accumulate = false) {
    const Status status = run_kernel(name, out, in, attrs, accumulate);
    REQUIRE(!status.ok());
    return status.error().code + " " + status.error().message;
  };
  const at::Tensor x = normal({2, 3}), y = normal({2, 3});
  using Catch::Matchers::Contains;
  CHECK_THAT(refused("no_such", {y}, {x}, {}), Contains("R0401") && Contains("no_such"));
  CHECK_THAT(refused("neg", {normal({3, 2})}, {x}, {}), Contains("R0402") && Contains("shape"));
  CHECK_THAT(refused("neg", {y}, {x, x}, {}), Contains("R0402") && Contains("2 inputs"));
  CHECK_THAT(refused("neg", {y}, {x}, {}, true), Contains("R0402") && Contains("accumulate"));
  CHECK_THAT(refused("neg", {y.to(at::kDouble)}, {x}, {}), Contains("R0402") && Contains("element type"));
  CHECK_THAT(refused("neg", {y}, {at::Tensor()}, {}), Contains("R0402") && Contains("absent"));
  CHECK_THAT(refused("gelu", {y}, {x}, {}), Contains("R0402") && Contains("approximate"));
  CHECK_THAT(refused("leaky_relu", {y}, {x}, {{"slope", std::string("steep")}}),
             Contains("R0402") && Contains("slope"));
  CHECK_THAT(refused("matmul", {y}, {x, x}, {}), Contains("R0402"));
  CHECK_THAT(refused("sum", {y}, {x}, {{"dims", Ints{5}}, {"keepdim", false}}),
             Contains("R0402") && Contains("axis 5"));
}

}  // namespace piper::kernels::testing
