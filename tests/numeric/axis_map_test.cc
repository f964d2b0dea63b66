// What ir/axis_map says of each operator, held to what kernels make: operands are cut along an axis, the operator is
// run on each part, and
//   kEach     every result that has the axis is put together of the parts' results; others are those of the whole
//   kSummed   every result is the sum of the parts' results
// for every axis of every operator among the graphs of the derivative rules and of the batch rules.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>

#include "compiler/ir/axis_map.h"
#include "compiler/ir/op_traits.h"
#include "runtime/kernels/kernel.h"
#include "tests/numeric/batch_forms.h"
#include "tests/numeric/interpreter.h"
#include "tests/numeric/prepare_case.h"
#include "tests/numeric/rule_cases.h"

namespace piper::numeric {
namespace {

using ir::AxisPlace;
using ir::AxisRole;
using ir::AxisRule;
using ir::OpAxis;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

struct Range {
  int64_t begin = 0, end = 0;
};

ir::TensorType part_type(ir::TensorType type, const AxisPlace& place, const Range& range) {
  type.shape[static_cast<size_t>(place.axis)] = place.factor.outer * (range.end - range.begin) * place.factor.inner;
  return type;
}

// The elements of `whole` that are in the range of the axis, in their order.
Tensor part_of(const Tensor& whole, const AxisPlace& place, int64_t extent, const Range& range) {
  Tensor part{part_type(whole.type, place, range), {}};
  part.bytes.resize(static_cast<size_t>(part.type.bytes()));
  const auto axis = static_cast<size_t>(place.axis);
  const int64_t before = ir::elements_before(whole.type.shape, axis) * place.factor.outer;
  const int64_t behind = place.factor.inner * ir::elements_behind(whole.type.shape, axis);
  int64_t to = 0;
  for (int64_t b = 0; b < before; ++b)
    for (int64_t i = range.begin; i < range.end; ++i)
      for (int64_t e = 0; e < behind; ++e) part.set(to++, whole.at((b * extent + i) * behind + e));
  return part;
}

bool is_near(double a, double b) {
  return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)) || (std::isnan(a) && std::isnan(b)) || a == b;
}
bool is_near(const Tensor& a, const Tensor& b) {
  if (a.type != b.type) return false;
  for (int64_t i = 0; i < a.type.elements(); ++i)
    if (!is_near(a.at(i), b.at(i))) return false;
  return true;
}

// An operator as a graph of its own, its operands and what it makes of them.
struct Sample {
  const ir::Op& op;
  std::vector<Tensor> operands, results;  // absent operands have no type
};

ir::Attrs attrs_of(const Sample& sample, const OpAxis& axis, const Range& range) {
  ir::Attrs attrs = sample.op.attrs;
  const auto made = [&] {
    const AxisPlace* place = axis.in_result(0);
    const ir::TensorType& whole = sample.results[0].type;
    return place == nullptr ? whole.shape : part_type(whole, *place, range).shape;
  };
  if (auto* reshape = std::get_if<ir::ReshapeAttrs>(&attrs)) reshape->shape = made();
  if (auto* expand = std::get_if<ir::ExpandAttrs>(&attrs)) expand->shape = made();
  if (auto* slice = std::get_if<ir::SliceAttrs>(&attrs); slice != nullptr && axis.operands[0].axis == slice->dim)
    slice->end = range.end - range.begin;  // an axis that is kept whole
  return attrs;
}

// The results of the operator on a part of the axis; none where it takes no such operands.
std::vector<Tensor> run_part(const Sample& sample, const OpAxis& axis, const Range& range) {
  ir::Graph graph;
  ir::GraphBuilder b(graph, graph.intern_scope("part"), graph.provenance().model({"part", "part", ""}));
  std::vector<Tensor> operands = sample.operands;
  for (const AxisPlace& place : axis.operands)
    if (!place.repeats) operands[place.index] = part_of(operands[place.index], place, axis.extent, range);
  std::vector<ValueId> values;
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(sample.op.operands[i].valid() ? graph.add_input("x" + std::to_string(i), operands[i].type, false)
                                                   : ValueId());
  const std::vector<ValueId> results = b.add(sample.op.kind, values, attrs_of(sample, axis, range));
  if (!b.status().ok()) return {};
  auto interpreter = Interpreter::make(graph);
  if (!interpreter.ok()) FAIL(ir::op_name(sample.op.kind) << ": " << interpreter.error().message);
  for (size_t i = 0; i < operands.size(); ++i)
    if (values[i].valid()) (*interpreter)->source(values[i]) = operands[i];
  (*interpreter)->run();
  std::vector<Tensor> made;
  for (ValueId result : results) made.push_back((*interpreter)->value(result));
  return made;
}

struct Report {
  std::map<std::string, int> checked;  // by operator
  std::vector<std::string> wrong;
};

void check_axis(const Sample& sample, const OpAxis& axis, const std::string& where, Report& report) {
  const Range parts[] = {{0, 1}, {1, axis.extent}};
  std::vector<Tensor> sums;
  std::string wrong;
  for (const Range& range : parts) {
    const std::vector<Tensor> made = run_part(sample, axis, range);
    if (made.empty()) wrong = "does not take a part";
    for (uint32_t r = 0; r < made.size() && wrong.empty(); ++r) {
      const Tensor& whole = sample.results[r];
      if (axis.role == AxisRole::kEach) {
        const AxisPlace* place = axis.in_result(r);
        if (!is_near(made[r], place == nullptr ? whole : part_of(whole, *place, axis.extent, range)))
          wrong = "result " + std::to_string(r) + " is not made of its parts";
        continue;
      }
      if (sums.size() <= r) sums.push_back(made[r]), std::fill(sums[r].bytes.begin(), sums[r].bytes.end(), std::byte{});
      const double share = sample.op.kind == OpKind::kMean
                               ? static_cast<double>(range.end - range.begin) / static_cast<double>(axis.extent)
                               : 1;
      for (int64_t i = 0; i < made[r].type.elements(); ++i) sums[r].set(i, sums[r].at(i) + share * made[r].at(i));
    }
  }
  for (size_t r = 0; r < sums.size() && wrong.empty(); ++r)
    if (!is_near(sums[r], sample.results[r])) wrong = "result " + std::to_string(r) + " is no sum of parts";
  const std::string name(ir::op_name(sample.op.kind));
  ++report.checked[name];
  if (wrong.empty()) return;
  std::string text = name + " (" + where + ")";
  for (const AxisPlace& place : axis.operands)
    text += ", axis " + std::to_string(place.axis) + " of operand " + std::to_string(place.index);
  report.wrong.push_back(text + ": " + wrong);
}

void check_op(const ir::Graph& graph, const ir::Op& op, const Interpreter& interpreter, const std::string& where,
              Report& report) {
  if (op.kind == OpKind::kDropout) return;  // batch_rules_test, where its attributes say the places
  Sample sample{op, {}, {}};
  for (ValueId v : op.operands) sample.operands.push_back(v.valid() ? interpreter.value(v) : Tensor());
  for (ValueId v : op.results) sample.results.push_back(interpreter.value(v));
  const ir::AxisMap map(graph, op);
  for (const OpAxis& axis : map.axes())
    if (axis.extent > 1 && (axis.role == AxisRole::kEach || axis.role == AxisRole::kSummed))
      check_axis(sample, axis, where, report);
}

// A form of the batch rules with two samples; false where the operator takes no such operands.
bool check_form(const BatchForm& form, Report& report) {
  ir::Graph graph;
  ir::GraphBuilder b(graph, graph.intern_scope("form"), graph.provenance().model({"form", "form", ""}));
  std::vector<ValueId> operands;
  for (const Operand& x : form.operands) {
    const DType dtype = x.content == Content::kBools     ? DType::kBool
                        : x.content == Content::kIndices ? DType::kI64
                                                         : DType::kF32;
    const std::string name = "x" + std::to_string(operands.size());
    operands.push_back(x.absent ? ValueId() : graph.add_input(name, {dtype, x.at(2)}, false));
  }
  if (form.kind == OpKind::kDropout) return false;
  const std::vector<ValueId> results = b.add(form.kind, operands, form.attrs(2));
  if (!b.status().ok()) return false;
  auto interpreter = Interpreter::make(graph);
  if (!interpreter.ok()) FAIL(text(form) << ": " << interpreter.error().message);
  std::mt19937_64 random(7);
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!operands[k].valid()) continue;
    Tensor& tensor = (*interpreter)->source(operands[k]);
    for (int64_t i = 0; i < tensor.type.elements(); ++i) {
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      const Content content = form.operands[k].content;
      tensor.set(i, content == Content::kBools      ? u < 0.6
                    : content == Content::kIndices  ? std::floor(u * static_cast<double>(form.bound))
                    : content == Content::kPositive ? 0.25 + u
                                                    : 2 * u - 1);
    }
  }
  (*interpreter)->run();
  check_op(graph, graph.op(graph.value(results[0]).producer), **interpreter, text(form), report);
  return true;
}

TEST_CASE("what is said of an operator's axes is what kernels make of parts") {
  kernels::initialise_process();
  kernels::enter_worker_thread(1);
  Report report;
  for (const RuleCase& one : rule_cases()) {
    const PreparedCase prepared = prepare_case(one, one.dtype, test_seed());
    prepared.interpreter->run(0, prepared.num_forward_ops);
    for (size_t i = 0; i < prepared.num_forward_ops; ++i)
      check_op(*prepared.graph, prepared.graph->op(ir::OpId(i)), *prepared.interpreter, one.name, report);
  }
  for (const BatchForm& form : batch_forms()) check_form(form, report);
  for (const std::string& wrong : report.wrong) UNSCOPED_INFO(wrong);
  CHECK(report.wrong.empty());
  // Losses are taken apart before kernels see them; which rows are whose is known at run time, or they mix all.
  const std::set<AxisRule> elsewhere = {AxisRule::kRowLoss,       AxisRule::kElementLoss, AxisRule::kBatchStatistics,
                                        AxisRule::kExpertOrder,   AxisRule::kTakeRows,    AxisRule::kGroupedMatmul,
                                        AxisRule::kGroupedExpand, AxisRule::kMixes,       AxisRule::kBackward};
  for (const OpKind kind : kAllOps) {
    if (kind == OpKind::kCopy || kind == OpKind::kDropout || elsewhere.count(ir::axis_rule(kind)) != 0) continue;
    INFO(ir::op_name(kind));
    CHECK(report.checked[std::string(ir::op_name(kind))] > 0);
  }
}

}  // namespace
}  // namespace piper::numeric
