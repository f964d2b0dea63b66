// What analysis/track_batch says of the results of an operator, held to what kernels make: of a whole batch, and of its
// pieces. Every operator that has an axis rule, with the samples on each axis of each operand or on none, alone on the
// axis or as a factor of it:
//   kNone    the results of all pieces are that of the whole
//   kAxis    the result of the whole is that of the pieces, put together at (axis, outer, inner)
//   adds_samples   it is their sum
// and where no operator is said to mix samples, gradients of the pieces add up to that of the whole. What is mixed by a
// rule and not by the numbers is a refusal of legal input: kMissed lists them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/autodiff/autodiff.h"
#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"
#include "compiler/analysis/track_batch.h"
#include "compiler/passes/lay_out_dropout.h"
#include "runtime/kernels/kernel.h"
#include "tests/numeric/batch_forms.h"
#include "tests/numeric/interpreter.h"

namespace piper::numeric {
namespace {

using analysis::BatchFactor;
using analysis::BatchKind;
using ir::AxisRule;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

// ---------------------------------------------------------------- a form on some of the samples
// Numbers of the samples in order, each as many as one has; of an operand without samples for all.
struct Contents {
  std::vector<std::vector<double>> operands;
  Contents(const BatchForm& form, int64_t samples) {
    std::mt19937_64 random(11);
    const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    for (const Operand& x : form.operands) {
      const int64_t count = ir::elements(x.shape, 0, x.shape.size()) * (x.place.axis >= 0 ? samples : 1);
      std::vector<double>& numbers = operands.emplace_back(static_cast<size_t>(count));
      for (double& number : numbers) {
        const double u = unit();
        switch (x.content) {
          case Content::kNumbers: number = 2 * u - 1; break;
          case Content::kPositive: number = 0.25 + u; break;
          case Content::kBools: number = u < 0.6; break;
          case Content::kIndices: number = std::floor(u * static_cast<double>(form.bound)); break;
        }
      }
    }
  }
};

DType dtype_of(Content content) {
  return content == Content::kBools ? DType::kBool : content == Content::kIndices ? DType::kI64 : DType::kF32;
}

struct Run {
  ir::Graph graph;
  std::vector<ValueId> results;
  std::vector<std::pair<ValueId, size_t>> sources;  // leaf, operand
  std::vector<BatchFactor> claims;                  // [result]
  bool adds = false, mixes = false;
  std::vector<Tensor> values;     // [result]
  std::vector<Tensor> gradients;  // [parameter]
};

// x [n, ..] with the samples where the operand has them.
ValueId put_in_place(ir::GraphBuilder& b, ValueId x, const Operand& operand, int64_t n) {
  const Place& place = operand.place;
  const auto axis = static_cast<size_t>(place.axis);
  Shape dims;
  for (size_t d = 0; d < axis; ++d) dims.push_back(static_cast<int64_t>(d) + 1);
  const int64_t behind = static_cast<int64_t>(axis) + 1;
  if (place.outer > 1) dims.push_back(behind);
  dims.push_back(0);
  for (int64_t d = behind + (place.outer > 1 ? 1 : 0); d < static_cast<int64_t>(b.type(x).shape.size()); ++d)
    dims.push_back(d);
  return b.reshape(b.permute(x, dims), operand.at(n));
}
Shape samples_first(const Operand& operand, int64_t n) {
  Shape shape{n};
  for (size_t d = 0; d < operand.shape.size(); ++d)
    if (static_cast<int64_t>(d) != operand.place.axis || operand.shape[d] > 1) shape.push_back(operand.shape[d]);
  return shape;
}

// The graph for n samples; false where the operator takes no such operands.
bool build(const BatchForm& form, int64_t n, Run& run) {
  ir::GraphBuilder b(run.graph, run.graph.intern_scope("form"), run.graph.provenance().model({"form", "form", ""}));
  const auto parameter = [&](Shape shape) {
    const std::string name = "p" + std::to_string(run.graph.parameters().size());
    return run.graph.add_parameter({name}, {DType::kF32, std::move(shape)}, true, {});
  };
  std::vector<ValueId> operands;
  for (size_t k = 0; k < form.operands.size(); ++k) {
    const Operand& operand = form.operands[k];
    if (operand.absent) {
      operands.emplace_back();
      continue;
    }
    const DType dtype = dtype_of(operand.content);
    const bool samples = operand.place.axis >= 0;
    ValueId leaf;
    if (!samples && dtype == DType::kF32) leaf = parameter(operand.shape);
    else
      leaf = run.graph.add_input("x" + std::to_string(k), {dtype, samples ? samples_first(operand, n) : operand.shape},
                                 samples);
    run.sources.push_back({leaf, k});
    if (!samples) {
      operands.push_back(leaf);
      continue;
    }
    ValueId x = put_in_place(b, leaf, operand, n);
    if (dtype == DType::kF32) x = b.add1(OpKind::kMul, {x, parameter({})});
    operands.push_back(x);
  }
  if (form.kind == OpKind::kDropout) {
    operands.push_back(run.graph.seed_step());
    operands.push_back(run.graph.sample_offset());
  }
  run.results = b.add(form.kind, operands, form.attrs(n));
  return b.status().ok();
}

std::vector<int64_t> all_axes(const Shape& shape) {
  std::vector<int64_t> dims(shape.size());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
  return dims;
}

// What is known of the operator's results, and a loss of those that pieces add up to: squares of what is per sample, or
// a linear function of sums.
void track(Run& run, int64_t n) {
  const analysis::BatchMap map = analysis::track_batch(run.graph, n);
  diag::Diagnostics diags;
  (void)passes::lay_out_dropout(run.graph, map, n, 1, diags);
  const ir::OpId id = run.graph.value(run.results[0]).producer;
  run.adds = analysis::adds_samples(run.graph, run.graph.op(id), map);
  run.mixes = std::find(map.mixers.begin(), map.mixers.end(), id) != map.mixers.end();
  for (ValueId result : run.results) run.claims.push_back(map.of(result));
}

void add_loss(Run& run) {
  ir::GraphBuilder b(run.graph, ir::ScopeId(), run.graph.provenance().model({"loss", "loss", ""}));
  ValueId loss;
  for (size_t r = 0; r < run.results.size(); ++r) {
    const ValueId y = run.results[r];
    if (b.type(y).dtype != DType::kF32 || (!run.adds && run.claims[r].kind != BatchKind::kAxis)) continue;
    const ValueId term = b.sum(run.adds ? y : b.add1(OpKind::kMul, {y, y}), all_axes(b.type(y).shape), false);
    loss = loss.valid() ? b.add1(OpKind::kAdd, {loss, term}) : term;
  }
  run.graph.loss = loss;
  if (!loss.valid()) return;
  diag::Diagnostics diags;
  const auto map = autodiff::differentiate(run.graph, diags);
  if (!map.ok()) run.graph.loss = ValueId();
}

void execute(Run& run, const BatchForm& form, const Contents& contents, int64_t begin, int64_t n) {
  auto made = Interpreter::make(run.graph);
  if (!made.ok()) FAIL(text(form) << ": " << made.error().message);
  Interpreter& interpreter = **made;
  for (const auto& [leaf, k] : run.sources) {
    const Operand& operand = form.operands[k];
    const std::vector<double>& numbers = contents.operands[k];
    const int64_t first = operand.place.axis >= 0 ? begin * ir::elements(operand.shape, 0, operand.shape.size()) : 0;
    Tensor& tensor = interpreter.source(leaf);
    for (int64_t i = 0; i < tensor.type.elements(); ++i) tensor.set(i, numbers[static_cast<size_t>(first + i)]);
  }
  for (const ir::Parameter& scale : run.graph.parameters())
    if (run.graph.type(scale.value).shape.empty() &&
        std::none_of(run.sources.begin(), run.sources.end(), [&](const auto& s) { return s.first == scale.value; }))
      interpreter.source(scale.value).set(0, 1.25);
  if (form.kind == OpKind::kDropout) interpreter.source(run.graph.sample_offset()).set(0, static_cast<double>(begin));
  interpreter.run();
  for (ValueId result : run.results) run.values.push_back(interpreter.value(result));
  for (const ir::Parameter& parameter : run.graph.parameters()) {
    const Tensor* gradient = run.graph.loss.valid() ? interpreter.gradient(parameter.value) : nullptr;
    run.gradients.push_back(gradient != nullptr ? *gradient : Tensor());
  }
  (void)n;
}

// ---------------------------------------------------------------- the whole and its pieces
struct Piece {
  int64_t begin = 0, n = 0;
};
bool near(double a, double b) {
  return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)) || (std::isnan(a) && std::isnan(b));
}

bool is_same(const Tensor& whole, const Tensor& piece) {
  if (whole.type != piece.type) return false;
  for (int64_t i = 0; i < whole.type.elements(); ++i)
    if (!near(piece.at(i), whole.at(i))) return false;
  return true;
}

bool holds_rows(const Tensor& whole, int64_t samples, const Tensor& part, const Piece& piece, const BatchFactor& f) {
  const auto axis = static_cast<size_t>(f.axis);
  const Shape &all = whole.type.shape, &some = part.type.shape;
  if (all.size() != some.size() || axis >= all.size() || all[axis] != f.outer * samples * f.inner ||
      some[axis] != f.outer * piece.n * f.inner)
    return false;
  for (size_t d = 0; d < all.size(); ++d)
    if (d != axis && all[d] != some[d]) return false;
  const int64_t before = ir::elements(all, 0, axis) * f.outer, behind = f.inner * ir::elements_behind(all, axis);
  for (int64_t b = 0; b < before; ++b)
    for (int64_t s = 0; s < piece.n; ++s)
      for (int64_t e = 0; e < behind; ++e)
        if (!near(part.at((b * piece.n + s) * behind + e), whole.at((b * samples + piece.begin + s) * behind + e)))
          return false;
  return true;
}

bool is_sum(const Tensor& whole, const std::vector<const Tensor*>& parts) {
  for (const Tensor* part : parts)
    if (part->type != whole.type) return false;
  for (int64_t i = 0; i < whole.type.elements(); ++i) {
    double sum = 0;
    for (const Tensor* part : parts) sum += part->at(i);
    if (!near(sum, whole.at(i))) return false;
  }
  return true;
}

// Whether the numbers are those of a slice at some place.
bool is_of_samples(const Tensor& whole, int64_t samples, const std::vector<const Tensor*>& parts,
                   const std::vector<Piece>& pieces) {
  for (size_t axis = 0; axis < whole.type.shape.size(); ++axis) {
    const int64_t each = whole.type.shape[axis] / samples;
    if (each == 0 || each * samples != whole.type.shape[axis]) continue;
    for (int64_t outer = 1; outer <= each; ++outer) {
      if (each % outer != 0) continue;
      const BatchFactor f{BatchKind::kAxis, static_cast<int64_t>(axis), outer, each / outer};
      bool holds = true;
      for (size_t p = 0; holds && p < pieces.size(); ++p) holds = holds_rows(whole, samples, *parts[p], pieces[p], f);
      if (holds) return true;
    }
  }
  return false;
}

const std::vector<std::vector<Piece>> kCuts = {{{0, 1}, {1, 2}}, {{0, 2}, {2, 2}}, {{0, 2}, {2, 3}}, {{0, 3}, {3, 3}}};

struct Outcome {
  bool checked = false;
  std::vector<std::string> wrong;
  std::set<std::string> missed;
};

void check_cut(const BatchForm& form, const std::vector<Piece>& pieces, Outcome& outcome) {
  const int64_t samples = pieces.back().begin + pieces.back().n;
  std::vector<Run> runs(pieces.size() + 1);  // the last is the whole
  const auto n_of = [&](size_t i) { return i < pieces.size() ? pieces[i].n : samples; };
  for (size_t i = 0; i < runs.size(); ++i)
    if (!build(form, n_of(i), runs[i])) return;
  for (size_t i = 0; i < runs.size(); ++i) track(runs[i], n_of(i));
  // With one sample every axis of extent 1 can pass for the batch: what is known is that of a larger number.
  Run& whole = runs.back();
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].n == 1) runs[i].claims = whole.claims, runs[i].mixes = whole.mixes, runs[i].adds = whole.adds;
    for (size_t r = 0; r < whole.claims.size(); ++r) {
      const BatchFactor &a = runs[i].claims[r], &b = whole.claims[r];
      if (a.kind != b.kind || a.axis != b.axis || a.outer != b.outer || a.inner != b.inner) return;  // an extent is n
    }
  }
  const Contents contents(form, samples);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].mixes || runs[i].adds) add_loss(runs[i]);
    execute(runs[i], form, contents, i < pieces.size() ? pieces[i].begin : 0, n_of(i));
  }
  outcome.checked = true;
  const auto wrong = [&](const std::string& what) {
    outcome.wrong.push_back(text(form) + " in pieces of " + std::to_string(pieces[0].n) + ", " +
                            std::to_string(pieces[1].n) + ": " + what);
  };
  for (size_t r = 0; r < whole.values.size(); ++r) {
    std::vector<const Tensor*> parts;
    for (size_t i = 0; i < pieces.size(); ++i) parts.push_back(&runs[i].values[r]);
    const Tensor& all = whole.values[r];
    const std::string result = "result " + std::to_string(r);
    bool same = true, rows = true;
    for (size_t i = 0; i < pieces.size(); ++i) {
      same = same && is_same(all, *parts[i]);
      rows = rows && whole.claims[r].kind == BatchKind::kAxis &&
             holds_rows(all, samples, *parts[i], pieces[i], whole.claims[r]);
    }
    if (whole.adds) {
      std::vector<Tensor> scaled;
      if (form.kind == OpKind::kMean) {  // of as many samples as each piece has
        for (size_t i = 0; i < pieces.size(); ++i) {
          scaled.push_back(*parts[i]);
          for (int64_t e = 0; e < scaled[i].type.elements(); ++e)
            scaled[i].set(e, scaled[i].at(e) * static_cast<double>(pieces[i].n) / static_cast<double>(samples));
        }
        for (size_t i = 0; i < pieces.size(); ++i) parts[i] = &scaled[i];
      }
      if (!is_sum(all, parts)) wrong(result + " is no sum");
      continue;
    }
    switch (whole.claims[r].kind) {
      case BatchKind::kNone:
        if (!same) wrong(result + " is not the same for all pieces");
        break;
      case BatchKind::kAxis:
        if (!rows && !whole.mixes) wrong(result + " is not made of the pieces'");
        break;
      case BatchKind::kGrouped:
      case BatchKind::kMixed:
      case BatchKind::kTotal:
        if (all.type.elements() > 0 && (same || is_of_samples(all, samples, parts, pieces) || is_sum(all, parts)))
          outcome.missed.insert(std::string(ir::op_name(form.kind)));
        break;
    }
  }
  if (!whole.graph.loss.valid() || form.kind == OpKind::kMean) return;  // a mean's gradient has its count in it
  for (size_t p = 0; p < whole.gradients.size(); ++p) {
    std::vector<const Tensor*> parts;
    for (size_t i = 0; i < pieces.size(); ++i) parts.push_back(&runs[i].gradients[p]);
    if (!is_sum(whole.gradients[p], parts)) wrong("gradients of parameter " + std::to_string(p) + " do not add up");
  }
}

// Operator -> where its numbers are those of samples and its rule says that it mixes them.
const std::map<std::string, std::string> kMissed = {
    {"avg_pool2d", "samples on the axis of channels"},
    {"batch_norm", "samples on the axis of channels"},
    {"convolution", "samples on the axis of channels of both operands, or of the result"},
    {"copysign", "chance: of one operand the sign alone"},
    {"eq", "chance: few bits"},
    {"expand", "a repetition for each sample of what has samples"},
    {"floor_divide", "chance: small whole numbers"},
    {"gather", "chance: factors in two orders"},
    {"ge", "chance: few bits"},
    {"gt", "chance: few bits"},
    {"le", "chance: few bits"},
    {"linear", "weights with samples, or a contraction over them"},
    {"logical_and", "chance: few bits"},
    {"logical_or", "chance: few bits"},
    {"lt", "chance: few bits"},
    {"max_pool2d", "samples on the axis of channels"},
    {"ne", "chance: few bits"},
    {"nextafter", "chance: of one operand the direction alone"},
    {"rotary", "samples along the axis that is turned"},
    {"scaled_dot_product_attention", "samples on the axis of heads"},
    {"scatter", "all indices are 0 where samples are written over"},
    {"scatter_add", "all indices are 0 where samples are written over"},
    {"slice", "a step over the inner factor"},
};

TEST_CASE("what is said of the batch is what kernels make of pieces") {
  kernels::initialise_process();
  kernels::enter_worker_thread(1);
  std::map<std::string, int> checked;
  std::map<std::string, std::set<std::string>> missed;
  std::vector<std::string> wrong;
  for (const BatchForm& form : batch_forms()) {
    Outcome outcome;
    for (const std::vector<Piece>& pieces : kCuts) check_cut(form, pieces, outcome);
    if (outcome.checked) ++checked[std::string(ir::op_name(form.kind))];
    for (const std::string& op : outcome.missed) missed[op].insert(text(form));
    wrong.insert(wrong.end(), outcome.wrong.begin(), outcome.wrong.end());
  }
  for (size_t i = 0; i < wrong.size() && i < 40; ++i) std::cout << wrong[i] << "\n";
  CHECK(wrong.empty());
  for (const auto& [op, forms] : missed) {
    INFO(op << ": of samples by the numbers, and mixed by its rule, as in " << *forms.begin());
    CHECK(kMissed.count(op) == 1);
  }
  for (const auto& [op, why] : kMissed) {
    INFO(op << " is no more mixed where it is of samples: " << why);
    CHECK(missed.count(op) == 1);
  }
  int total = 0;
  for (const auto& [op, count] : checked) total += count;
  std::cout << total << " forms of " << checked.size() << " operators\n";
  // Rows in the order of experts are known at run time alone; losses are taken apart before they are cut.
  const std::set<AxisRule> elsewhere = {AxisRule::kExpertOrder,   AxisRule::kTakeRows, AxisRule::kGroupedMatmul,
                                        AxisRule::kGroupedExpand, AxisRule::kRowLoss,  AxisRule::kElementLoss,
                                        AxisRule::kMixes,         AxisRule::kBackward};
  for (const OpKind kind : kAllOps) {
    if (kind == OpKind::kCopy || elsewhere.count(ir::axis_rule(kind)) != 0) continue;
    INFO(ir::op_name(kind));
    CHECK(checked[std::string(ir::op_name(kind))] > 0);
  }
}

}  // namespace
}  // namespace piper::numeric
