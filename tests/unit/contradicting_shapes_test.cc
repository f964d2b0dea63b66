// Rule 12 on calls whose shapes contradict what they compute: they are read no further than they have axes, and not
// proved. Of plans whose weights, tables, sequences and experts ranks share, and of one device's.
#include <catch2/catch.hpp>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/attrs.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

using Change = std::function<void(KernelCall&)>;

Change without_axis(bool of_result, size_t i, size_t axis) {
  return [=](KernelCall& call) {
    Operand& operand = (of_result ? call.outputs : call.inputs)[i];
    operand.shape.erase(operand.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    operand.strides.erase(operand.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  };
}

// Results and operands without their first or last axis, and other axes to work along.
std::vector<std::pair<std::string, Change>> contradictions(const KernelCall& call) {
  std::vector<std::pair<std::string, Change>> found;
  for (const bool of_result : {false, true}) {
    const std::vector<Operand>& operands = of_result ? call.outputs : call.inputs;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::vector<int64_t>& shape = operands[i].shape;
      for (const size_t axis : {size_t{0}, shape.size() - 1})
        if (!shape.empty() && shape[axis] != 1)
          found.emplace_back(
              (of_result ? "result " : "operand ") + std::to_string(i) + " without axis " + std::to_string(axis),
              without_axis(of_result, i, axis));
    }
  }
  if (const auto* const dims = find_attr<std::vector<int64_t>>(call, "dims"))
    for (const int64_t dim : {0, 1, 2, 3})
      if (*dims != std::vector<int64_t>{dim})
        found.emplace_back("along axis " + std::to_string(dim),
                           [dim](KernelCall& changed) { *find_attr<std::vector<int64_t>>(changed, "dims") = {dim}; });
  return found;
}

// Each kernel once in each program.
void check_each(const std::string& model, const std::string& directives) {
  const Bundle sound =
      compiled::bundle(model, "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n" + directives);
  std::set<std::pair<size_t, std::string>> seen;
  size_t tried = 0;
  for (size_t p = 0; p < sound.programs.size(); ++p) {
    if (!sound.programs[p].of) continue;
    for (size_t c = 0; c < sound.programs[p].calls.size(); ++c) {
      const KernelCall& call = sound.programs[p].calls[c];
      if (!seen.emplace(p, call.kernel.text()).second) continue;
      for (const auto& [what, change] : contradictions(call)) {
        Bundle bundle = sound;
        change(bundle.programs[p].calls[c]);
        const auto report = verify::verify(bundle);
        INFO(directives << sound.programs[p].name << " call " << c << " " << call.kernel.text() << ": " << what);
        CHECK_FALSE((report.ok() && report->equality.whole()));
        ++tried;
      }
    }
  }
  CHECK(tried > 100);
}

}  // namespace

TEST_CASE("calls whose shapes contradict what they compute are not proved") {
  const std::string columns = "  - {op: shard, filter: {}, dim: column, over: [[0, 1]]}\n";
  check_each("tiny_gpt.onnx", "");
  check_each("tiny_gpt.onnx",
             "directives:\n" + columns + "  - {op: shard, filter: {}, dim: vocabulary, over: [[0, 1]]}\n");
  check_each("tiny_gpt.onnx",
             "directives:\n" + columns + "  - {op: shard, filter: {}, dim: sequence, over: [[0, 1]]}\n");
  check_each("tiny_routed.onnx",
             "directives:\n  - {op: shard, filter: {}, dim: column, over: [[0, 1]], weights: [\"mixtures.*.up\"]}\n");
  for (const char* model : {"tiny_experts.onnx", "tiny_routed.onnx"})
    check_each(model,
               "annotate: [{tag: EP, modules: [mixtures.0, mixtures.1]}]\ndirectives:\n"
               "  - {op: replicate, filter: {}, devices: [0, 1]}\n"
               "  - {op: shard, filter: {EP: \"*\"}, devices: [0, 1]}\n");
}
