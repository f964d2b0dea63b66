#include "tests/numeric/prepare_case.h"

#include <algorithm>
#include <cmath>

#include "compiler/autodiff/autodiff.h"

namespace piper::numeric {

PreparedCase prepare_case(const RuleCase& rule_case, DType dtype, uint64_t seed) {
  PreparedCase prepared;
  prepared.graph = std::make_unique<ir::Graph>();
  ir::Graph& graph = *prepared.graph;
  CaseBuilder builder(graph, dtype, seed);
  graph.loss = rule_case.build(builder);
  PIPER_CHECK(builder.b.status().ok(), rule_case.name, ": ", builder.b.status().error().message);
  prepared.num_forward_ops = graph.num_ops();
  diag::Diagnostics diags;
  const auto map = autodiff::differentiate(graph, diags);
  PIPER_CHECK(map.ok(), rule_case.name, ": ", diags.render_text(false));
  Result<std::unique_ptr<Interpreter>> interpreter = Interpreter::make(graph);
  PIPER_CHECK(interpreter.ok(), rule_case.name, ": ", interpreter.error().message);
  prepared.interpreter = std::move(interpreter).value();
  return prepared;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  PIPER_CHECK(a.type == b.type, "comparing ", to_string(a.type), " with ", to_string(b.type));
  double largest = 0;
  for (int64_t i = 0; i < a.type.elements(); ++i) {
    const double difference = std::abs(a.at(i) - b.at(i)) / std::max(1.0, std::abs(b.at(i)));
    if (!(difference <= largest)) largest = difference;  // keeps a NaN
    if (std::isnan(difference)) return difference;
  }
  return largest;
}

}  // namespace piper::numeric
