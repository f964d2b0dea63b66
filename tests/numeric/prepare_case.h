// Builds, differentiates and binds one case of rule_cases.h; shared by the tests that walk the list.
#pragma once

#include <memory>

#include "tests/numeric/interpreter.h"
#include "tests/numeric/rule_cases.h"

namespace piper::numeric {

struct PreparedCase {
  std::unique_ptr<ir::Graph> graph;  // the interpreter refers to it
  size_t num_forward_ops = 0;
  std::unique_ptr<Interpreter> interpreter;
};
// Throws InternalError with the case's name where something does not fit: a bug of the test or of a rule.
PreparedCase prepare_case(const RuleCase& rule_case, DType dtype, uint64_t seed);
// |a - b| / max(1, |b|), the largest over the elements; prints the place of the worst.
double largest_difference(const Tensor& a, const Tensor& b);

}  // namespace piper::numeric
