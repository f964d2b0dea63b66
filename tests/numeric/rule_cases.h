// The graphs on which every derivative rule is tested: one small random graph per operator and
// variant, ending in a random weighting of the results. finite_difference_test.cc and
// torch_autograd_test.cc walk the same list; a test asserts that it names every operator with a rule.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace piper::numeric {

// Makes sources with random contents. The stream of numbers depends on the seed alone.
class CaseBuilder {
 public:
  CaseBuilder(ir::Graph& graph, DType dtype, uint64_t seed)
      : b(graph, graph.intern_scope("case"), graph.provenance().model({"case", "case", ""})),
        dtype_(dtype),
        random_(seed) {}
  ir::GraphBuilder b;

  DType dtype() const { return dtype_; }
  // A trained parameter with elements in [low, high).
  ir::ValueId parameter(std::vector<int64_t> shape, double low = -1, double high = 1);
  // A trained parameter whose elements differ from each other by at least 0.1, in random order.
  ir::ValueId spaced(std::vector<int64_t> shape);
  // A trained parameter of given elements.
  ir::ValueId parameter_of(std::vector<int64_t> shape, const std::vector<double>& elements);
  ir::ValueId constant(std::vector<int64_t> shape, double low = -1, double high = 1);
  ir::ValueId bools(std::vector<int64_t> shape);
  ir::ValueId indices(std::vector<int64_t> shape, int64_t bound);
  // sum(value * random weights), summed over all values: a loss whose gradient is not uniform.
  ir::ValueId loss_of(const std::vector<ir::ValueId>& values);

 private:
  double uniform(double low, double high);
  ir::WeightSource numbers(const std::vector<double>& elements);
  DType dtype_;
  std::mt19937_64 random_;
};

struct RuleCase {
  std::string name;
  // Makes the graph and returns its loss.
  std::function<ir::ValueId(CaseBuilder&)> build;
  // Largest |difference| / max(1, |gradient|) against central differences in f64.
  double tolerance = 1e-6;
  // Why the case has no finite differences, or no LibTorch reference; "" where it has.
  std::string no_differences, no_torch;
  // Element type of both comparisons. f32 only for kernels without f64: differences are then left out.
  DType dtype = DType::kF64;
};
std::vector<RuleCase> rule_cases();
// Parts of the list, by family.
void add_pointwise_cases(std::vector<RuleCase>& cases);
void add_shape_cases(std::vector<RuleCase>& cases);
void add_layer_cases(std::vector<RuleCase>& cases);
void add_expert_cases(std::vector<RuleCase>& cases);
void add_factor_cases(std::vector<RuleCase>& cases);

// PIPER_TEST_SEED of the environment, or 1; printed at its first use.
uint64_t test_seed();

}  // namespace piper::numeric
