// Every derivative rule against LibTorch's autograd of the same forward, in f32 and f64: the two
// differ in formulas and kernels, so that agreement speaks for both. Tolerance: 1e-5 in f32 (a
// few roundings of 6e-8 on sums of tens of terms of size 1), in f64 the case's own.
#include <catch2/catch.hpp>

#include "tests/numeric/prepare_case.h"
#include "tests/numeric/torch_reference.h"

namespace {

using namespace piper;
using namespace piper::numeric;

void compare(const RuleCase& rule_case, DType dtype, double tolerance) {
  PreparedCase c = prepare_case(rule_case, dtype, test_seed());
  c.interpreter->run();
  const TorchResult torch = torch_gradients(*c.graph, c.num_forward_ops, *c.interpreter);
  CHECK(largest_difference(c.interpreter->value(c.graph->loss), torch.loss) <= tolerance);
  for (size_t i = 0; i < c.graph->parameters().size(); ++i) {
    const ir::Parameter& parameter = c.graph->parameters()[i];
    INFO("parameter " << parameter.names[0] << ", dtype " << dtype_name(dtype));
    const Tensor* gradient = c.interpreter->gradient(parameter.value);
    REQUIRE(gradient != nullptr);
    REQUIRE(torch.gradients[i].has_value());
    CHECK(largest_difference(*gradient, *torch.gradients[i]) <= tolerance);
  }
}

TEST_CASE("gradients are those of LibTorch autograd") {
  kernels::initialise_process();
  kernels::enter_worker_thread(1);
  for (const RuleCase& rule_case : rule_cases()) {
    if (!rule_case.no_torch.empty()) continue;
    DYNAMIC_SECTION(rule_case.name) {
      compare(rule_case, DType::kF32, 1e-5);
      if (rule_case.dtype == DType::kF64) compare(rule_case, DType::kF64, rule_case.tolerance);
    }
  }
}

}  // namespace
