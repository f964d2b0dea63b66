// Every derivative rule against central differences of its own forward, in f64.
//
// Step h = 1e-6 max(1, |x|): truncation is O(h^2) = 1e-12, rounding 1e-16 / h = 1e-10, so that the
// stated tolerance of each case (1e-6 unless a kernel keeps f32 statistics) leaves a wide margin and
// no wrong factor passes.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/autodiff/autodiff.h"
#include "tests/numeric/prepare_case.h"

namespace {

using namespace piper;
using namespace piper::numeric;

double loss_at(PreparedCase& c) {
  c.interpreter->run(0, c.num_forward_ops);
  return c.interpreter->value(c.graph->loss).at(0);
}

Tensor central_differences(PreparedCase& c, ir::ValueId parameter) {
  Tensor& x = c.interpreter->source(parameter);
  Tensor result = x;
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const double at = x.at(i), h = 1e-6 * std::max(1.0, std::abs(at));
    x.set(i, at + h);
    const double above = loss_at(c);
    x.set(i, at - h);
    const double below = loss_at(c);
    x.set(i, at);
    result.set(i, (above - below) / (2 * h));
  }
  return result;
}

TEST_CASE("gradients are the differences of the forward") {
  const uint64_t seed = test_seed();
  kernels::initialise_process();
  kernels::enter_worker_thread(1);
  for (const RuleCase& rule_case : rule_cases()) {
    if (!rule_case.no_differences.empty() || rule_case.dtype != DType::kF64) continue;
    DYNAMIC_SECTION(rule_case.name) {
      PreparedCase c = prepare_case(rule_case, DType::kF64, seed);
      c.interpreter->run();
      for (const ir::Parameter& parameter : c.graph->parameters()) {
        INFO("parameter " << parameter.names[0]);
        const Tensor* gradient = c.interpreter->gradient(parameter.value);
        REQUIRE(gradient != nullptr);
        const Tensor differences = central_differences(c, parameter.value);
        CHECK(largest_difference(*gradient, differences) <= rule_case.tolerance);
      }
    }
  }
}

// A rule without a case is a failure: each operator that has one is in some forward graph, and is
// compared with differences or with LibTorch.
TEST_CASE("every rule has a case") {
  std::set<std::string> seen;
  for (const RuleCase& rule_case : rule_cases()) {
    ir::Graph graph;
    CaseBuilder builder(graph, rule_case.dtype, test_seed());
    (void)rule_case.build(builder);  // the loss is not needed: the operators are
    for (size_t i = 0; i < graph.num_ops(); ++i) seen.insert(std::string(op_name(graph.op(ir::OpId(i)).kind)));
    CHECK((rule_case.no_differences.empty() || rule_case.no_torch.empty()));
  }
  const std::vector<ir::OpKind> kinds = {
#define PIPER_OP(enumerator, ...) ir::OpKind::enumerator,
#include "compiler/ir/ops.def"
#undef PIPER_OP
  };
  for (ir::OpKind kind : kinds) {
    if (autodiff::find_rule(kind) == nullptr) continue;
    INFO(op_name(kind));
    CHECK(seen.count(std::string(op_name(kind))) == 1);
  }
}

}  // namespace
