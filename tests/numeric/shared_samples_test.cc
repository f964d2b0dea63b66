// A pair of products whose weights are cut over places that share samples, against the pair whole: each place runs the
// graph of a part in step with the others, and they sum what their all_reduce ops read. Loss and whole parameters'
// gradients must be the same at every place, and those of the whole pair; parts' gradients, put together, too. f64;
// only sums over hidden units are taken in another order: 1e-12.
#include <catch2/catch.hpp>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compiler/autodiff/autodiff.h"
#include "compiler/ir/graph.h"
#include "tests/numeric/interpreter.h"

namespace {

using namespace piper;
using numeric::Interpreter;
using numeric::Tensor;

constexpr double kTolerance = 1e-12;
constexpr int kHidden = 6;

// 5 samples of width 3; a residual stream enters the pair and the sum, so that it has gradients of both.
ir::Graph pair_of(int places) {
  const auto part = [&](const char* shape, int axis) {
    return std::string(shape) +
           (places == 1 ? "" : " cut 0 axis " + std::to_string(axis) + " places " + std::to_string(places));
  };
  const std::string hidden = std::to_string(kHidden / places);
  const std::string text = R"(graph {
    %x = input "x" : f64[5, 3]
    %in = parameter ["in"] : f64[3, 3]
    %up = parameter ["up"] : )" +
                           part(("f64[" + hidden + ", 3]").c_str(), 0) + R"(
    %up_bias = parameter ["up_bias"] : )" +
                           part(("f64[" + hidden + "]").c_str(), 0) + R"(
    %down = parameter ["down"] : )" +
                           part(("f64[3, " + hidden + "]").c_str(), 1) + R"(
    %down_bias = parameter ["down_bias"] : f64[3]
    %rest = linear(%x, %in, none)
    %entered = enter(%rest)
    %h = linear(%entered, %up, %up_bias)
    %a = gelu(%h) {approximate="none"}
    %made = linear(%a, %down, none)
    %sum = all_reduce(%made)
    %y = add(%sum, %down_bias)
    %out = add(%y, %rest)
    %squared = mul(%out, %out)
    %loss = sum(%squared) {dims=[0, 1], keepdim=false}
    loss %loss
  }
)";
  auto graph = ir::parse_graph(text, "pair.pir");
  INFO((graph.ok() ? "" : graph.error().message));
  REQUIRE(graph.ok());
  diag::Diagnostics diags;
  REQUIRE(autodiff::differentiate(*graph, diags).ok());
  REQUIRE(ir::verify(*graph).ok());
  return std::move(graph).value();
}

// Numbers in [-1, 1) that depend on the name alone.
std::vector<double> numbers(const std::string& name, int64_t count) {
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> made;
  for (int64_t i = 0; i < count; ++i) made.push_back(uniform(random));
  return made;
}

// [element of the part at a place] its number in the whole.
std::vector<int64_t> elements_of(const ir::Parameter& p, const ir::TensorType& part, int64_t place) {
  const int64_t axis = p.cut ? p.cut->axis : 0;
  int64_t inner = 1;
  for (size_t a = static_cast<size_t>(axis) + 1; a < part.shape.size(); ++a) inner *= part.shape[a];
  const int64_t run = part.shape[static_cast<size_t>(axis)] * inner, whole_run = run * (p.cut ? p.cut->places : 1);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < part.elements(); ++i)
    elements.push_back(i / run * whole_run + (p.cut ? place * run : 0) + i % run);
  return elements;
}

// [place] what its rank computed.
std::vector<std::unique_ptr<Interpreter>> run(const ir::Graph& graph, int places) {
  std::vector<std::unique_ptr<Interpreter>> ranks;
  for (int place = 0; place < places; ++place) {
    auto made = Interpreter::make(graph);
    INFO((made.ok() ? "" : made.error().message));
    REQUIRE(made.ok());
    ranks.push_back(std::move(made).value());
    Tensor& x = ranks.back()->source(graph.inputs()[0].value);
    const std::vector<double> samples = numbers("x", x.type.elements());
    for (int64_t i = 0; i < x.type.elements(); ++i) x.set(i, samples[static_cast<size_t>(i)]);
    for (const ir::Parameter& p : graph.parameters()) {
      Tensor& own = ranks.back()->source(p.value);
      const std::vector<double> whole = numbers(p.names[0], p.whole(own.type).elements());
      const std::vector<int64_t> elements = elements_of(p, own.type, place);
      for (size_t i = 0; i < elements.size(); ++i)
        own.set(static_cast<int64_t>(i), whole[static_cast<size_t>(elements[i])]);
    }
  }
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    for (auto& rank : ranks) rank->run(i, i + 1);
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.kind != ir::OpKind::kAllReduce) continue;
    std::vector<Tensor> shares;
    for (auto& rank : ranks) shares.push_back(rank->value(op.operands[0]));
    for (auto& rank : ranks)
      for (int64_t e = 0; e < shares[0].type.elements(); ++e) {
        double sum = 0;
        for (const Tensor& share : shares) sum += share.at(e);
        rank->received(op.results[0]).set(e, sum);
      }
  }
  return ranks;
}

void check_near(double got, double want) { CHECK(std::abs(got - want) <= kTolerance * std::max(1.0, std::abs(want))); }

TEST_CASE("places that share samples compute what one device does") {
  kernels::initialise_process();
  kernels::enter_worker_thread(1);
  const ir::Graph whole = pair_of(1);
  const auto one = run(whole, 1);
  for (const int places : {2, 3}) {
    const ir::Graph cut = pair_of(places);
    const auto ranks = run(cut, places);
    for (int place = 0; place < places; ++place) {
      INFO("place " << place << " of " << places);
      const Interpreter& rank = *ranks[static_cast<size_t>(place)];
      check_near(rank.value(cut.loss).at(0), one[0]->value(whole.loss).at(0));
      for (size_t p = 0; p < cut.parameters().size(); ++p) {
        const ir::Parameter& parameter = cut.parameters()[p];
        INFO("gradient of " << parameter.names[0]);
        const Tensor *got = rank.gradient(parameter.value), *want = one[0]->gradient(whole.parameters()[p].value);
        REQUIRE(got != nullptr);
        const std::vector<int64_t> elements = elements_of(parameter, got->type, place);
        for (size_t i = 0; i < elements.size(); ++i)
          check_near(got->at(static_cast<int64_t>(i)), want->at(elements[i]));
      }
    }
  }
}

}  // namespace
