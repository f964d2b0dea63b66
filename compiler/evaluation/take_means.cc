#include "compiler/evaluation/take_means.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/track_batch.h"
#include "compiler/ir/copy_graph.h"
#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"
#include "schemas/plan/convert_elements.h"

namespace piper::evaluation {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;
using ir::ValueKind;

// What is done to a term on its way to the loss: an operator of one of its operands, all others of which are the same
// for all batches, or are other terms.
struct Around {
  OpId like;
  size_t operand;
};

// The largest number that may be added to a count, or be the least that it is taken for, and is not seen in a mean.
constexpr double kUnseen = 1e-6;

class TakeMeans {
 public:
  TakeMeans(ir::Graph& graph, int64_t samples)
      : graph_(graph), batch_(analysis::track_batch(graph, samples)), divided_(graph.num_values()) {
    for (size_t v = 0; v < graph.num_values(); ++v) {
      const ir::Value& value = graph.value(ValueId(v));
      const bool random = value.kind == ValueKind::kSeedStep || value.kind == ValueKind::kSampleOffset;
      const bool batched = value.kind == ValueKind::kInput && graph.inputs()[value.payload].batched;
      const bool trained = value.kind == ValueKind::kParameter && !graph.is_unchanging(ValueId(v));
      parameter_free_.push_back(!trained && value.kind != ValueKind::kBuffer && !random);
      fixed_.push_back(!batched && !random);
    }
    for (size_t i = 0; i < graph.num_ops(); ++i) {
      const ir::Op& op = graph.op(OpId(i));
      for (ValueId operand : op.operands)
        if (operand.valid())
          for (ValueId result : op.results) {
            parameter_free_[result.index] = parameter_free_[result.index] && parameter_free_[operand.index];
            fixed_[result.index] = fixed_[result.index] && fixed_[operand.index];
          }
    }
  }

  // Why it cannot be done; "": it is.
  std::string run() {
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      ir::Op& op = graph_.op(OpId(i));
      if (op.phase == Phase::kCount && op.kind != OpKind::kStepSum) op.phase = Phase::kForward;
    }
    for (ValueId loss : graph_.all_losses()) split(loss, {});
    if (!uncounted_.sums.empty()) graph_.means.push_back(std::move(uncounted_));
    if (!refused_.empty() || graph_.means.empty()) return refused_;
    graph_.loss_terms.clear();
    for (const ir::Graph::Mean& mean : graph_.means)
      for (const std::vector<ValueId>* addends : {&mean.sums, &mean.counts})
        graph_.loss_terms.insert(graph_.loss_terms.end(), addends->begin(), addends->end());
    graph_.loss = graph_.loss_terms.back();
    graph_.loss_terms.pop_back();
    ir::drop_unread(graph_);
    return {};
  }

 private:
  const ir::Op* maker(ValueId v) const {
    const ir::Value& value = graph_.value(v);
    return value.kind == ValueKind::kOpResult ? &graph_.op(value.producer) : nullptr;
  }
  bool is_one_number(ValueId v) const { return graph_.type(v).elements() == 1; }
  bool is_constant(ValueId v) const { return graph_.value(v).kind == ValueKind::kConstant && is_one_number(v); }
  bool is_fixed(ValueId v) const { return v.valid() && fixed_[v.index]; }

  // ---------------------------------------------------------------- the ways to the terms
  // The operands in which the op is linear, others being the same for all batches: all of a sum, else one.
  std::vector<size_t> linear_in(const ir::Op& op) const {
    switch (op.kind) {
      case OpKind::kAdd:
      case OpKind::kSub: return {0, 1};
      case OpKind::kCat: {
        std::vector<size_t> all(op.operands.size());
        std::iota(all.begin(), all.end(), size_t{0});
        return all;
      }
      case OpKind::kCast:
        if (!is_floating(graph_.type(op.operands[0]).dtype)) break;
        return {0};
      case OpKind::kNeg:
      case OpKind::kReshape:
      case OpKind::kPermute:
      case OpKind::kExpand:
      case OpKind::kSlice:
      case OpKind::kDetach:
      case OpKind::kSum:
      case OpKind::kMean: return {0};
      case OpKind::kMul:
      case OpKind::kMatmul:
        if (is_fixed(op.operands[1])) return {0};
        if (is_fixed(op.operands[0])) return {1};
        break;
      case OpKind::kDiv:
        if (is_fixed(op.operands[1])) return {0};
        break;
      case OpKind::kWhere:
        if (is_fixed(op.operands[0])) return {1, 2};
        break;
      default: break;
    }
    return {};
  }

  struct Division {
    size_t term = 0;  // the operand that is divided
    ValueId count;    // invalid: it is no division by a count
  };
  Division division(const ir::Op& op) {
    if (op.kind == OpKind::kMul)
      for (const size_t i : {0, 1})
        if (const ValueId by = inverted(op.operands[i]); by.valid()) return {1 - i, counted(by)};
    if (op.kind == OpKind::kDiv) return {0, counted(op.operands[1])};
    return {};
  }

  // Whether a term that is divided by a count is found in v; a number of the batch that does not add up is refused.
  bool is_divided(ValueId v) {
    const ir::Op* made_by = maker(v);
    if (made_by == nullptr) return false;
    if (v.index < divided_.size() && divided_[v.index]) return *divided_[v.index];
    const ir::Op op = *made_by;
    bool found = division(op).count.valid() || other_divisor(op).valid();
    for (const size_t i : linear_in(op)) found = is_divided(op.operands[i]) || found;
    // What is linear too, but cannot be made again where the term is.
    const bool by_condition = op.kind == OpKind::kWhere && is_one_number(op.operands[0]) && !is_fixed(op.operands[0]);
    if (by_condition || ir::is_conversion(op.kind))
      for (size_t i = by_condition ? 1 : 0; i < op.operands.size() && !found; ++i)
        found = op.operands[i].valid() && is_divided(op.operands[i]);
    if (v.index < divided_.size()) divided_[v.index] = found;
    return found;
  }

  // The number of the batch that the op divides by, where it does not add up.
  ValueId other_divisor(const ir::Op& op) {
    ValueId by = op.kind == OpKind::kDiv ? op.operands[1] : ValueId();
    if (op.kind == OpKind::kMul)
      for (const ValueId operand : op.operands)
        if (!by.valid()) by = inverted(operand);
    return by.valid() && is_of_batch(by) && !counted(by).valid() ? by : ValueId();
  }

  void split(ValueId v, std::vector<Around> around) {
    const ir::Op* made_by = maker(v);
    if (made_by == nullptr) return add_uncounted(v, around);
    const ir::Op op = *made_by;
    const OpId id = graph_.value(v).producer;
    if (const Division by = division(op); by.count.valid()) {
      if (is_divided(op.operands[by.term])) return refuse(op, "divides a mean by a second number of the batch");
      return add_counted(op.operands[by.term], by.count, graph_.type(v).shape, around);
    }
    if (const ValueId by = other_divisor(op); by.valid())
      return refuse(*maker(by),
                    "makes a number of the whole batch by which a term is divided, and which does not add "
                    "up over batches");
    const std::vector<size_t> ways = linear_in(op);
    const bool small = is_one_number(v) &&
                       std::all_of(ways.begin(), ways.end(), [&](size_t i) { return is_one_number(op.operands[i]); });
    const bool simple = op.kind == OpKind::kAdd || op.kind == OpKind::kSub || op.kind == OpKind::kCast ||
                        op.kind == OpKind::kReshape || op.kind == OpKind::kNeg || op.kind == OpKind::kMul ||
                        op.kind == OpKind::kDiv;
    const bool divided = is_divided(v);
    if (!ways.empty() && (divided || (small && simple))) {
      for (const size_t i : ways) {
        around.push_back({id, i});
        split(op.operands[i], around);
        around.pop_back();
      }
      return;
    }
    if (divided && op.kind == OpKind::kWhere)
      return refuse(
          op, "chooses by a number of the batch whether a mean counts, which piper-run divides after the last batch");
    if (divided) return refuse(op, "adds up over devices what was divided by a number of the batch");
    add_uncounted(v, around);
  }

  void refuse(const ir::Op& op, std::string why) {
    if (refused_.empty()) refused_ = graph_.provenance().describe(op.prov) + " " + std::move(why);
  }

  // ---------------------------------------------------------------- counts
  // The number that v is the inverse of; invalid where it is none.
  ValueId inverted(ValueId v) const {
    const ir::Op* op = maker(v);
    while (op != nullptr && (op->kind == OpKind::kCast || op->kind == OpKind::kReshape)) op = maker(op->operands[0]);
    return op != nullptr && op->kind == OpKind::kReciprocal ? op->operands[0] : ValueId();
  }

  // One number of all samples of a piece, or of the step, that no parameter enters.
  bool is_of_batch(ValueId v) const {
    const analysis::BatchKind kind = batch_.of(v).kind;
    const bool of_each = kind == analysis::BatchKind::kAxis || kind == analysis::BatchKind::kGrouped;
    return maker(v) != nullptr && is_one_number(v) && parameter_free_[v.index] && !is_fixed(v) && !of_each;
  }

  // Whether it is the sum of what it is on the batches.
  bool adds_up(ValueId v) const {
    const ir::Op* const op = maker(v);
    if (op == nullptr) return false;
    if (op->kind == OpKind::kCrossEntropyCount || analysis::adds_samples(graph_, *op, batch_)) return true;
    const bool cut_off = op->kind == OpKind::kCast && !is_floating(graph_.type(v).dtype) &&
                         is_floating(graph_.type(op->operands[0]).dtype);
    if (cut_off || (op->kind == OpKind::kDiv && !is_floating(graph_.type(v).dtype))) return false;
    if (op->kind == OpKind::kCast || ir::is_conversion(op->kind)) return adds_up(op->operands[0]);
    const std::vector<size_t> ways = linear_in(*op);
    return !ways.empty() && op->kind != OpKind::kCat &&
           std::all_of(ways.begin(), ways.end(), [&](size_t i) { return adds_up(op->operands[i]); });
  }

  // What v, a number of the whole batch that no parameter enters, is on a piece; invalid where that does not add up.
  ValueId counted(ValueId v) {
    if (!is_of_batch(v)) return {};
    const ir::Op op = *maker(v);
    if (op.kind == OpKind::kStepSum) return op.operands[0];
    if (const ValueId bare = without_guard(op); bare.valid()) return counted(bare);
    const bool finishes = op.phase == Phase::kCountFinish;
    if (op.kind == OpKind::kCast || op.kind == OpKind::kReshape) {
      const ir::Op* const of = maker(op.operands[0]);
      const bool cut_off = !is_floating(graph_.type(v).dtype) && is_floating(graph_.type(op.operands[0]).dtype);
      if (cut_off && (of == nullptr || of->kind != OpKind::kStepSum)) return {};
      const ValueId inner = counted(op.operands[0]);
      return inner == op.operands[0] ? v : inner;  // sums are not rounded
    }
    if (!finishes) return adds_up(v) ? v : ValueId();  // one piece is the batch
    const bool sums = op.kind == OpKind::kAdd || op.kind == OpKind::kSub;
    const bool scaled = op.kind == OpKind::kMul || (op.kind == OpKind::kDiv && is_floating(graph_.type(v).dtype));
    if (!sums && (!scaled || !is_constant(op.operands[1]))) return {};
    const ValueId inner = counted(op.operands[0]), other = sums ? counted(op.operands[1]) : op.operands[1];
    if (!inner.valid() || !other.valid()) return {};
    const ir::ChunkId chunk = chunk_of(inner, op.chunk);
    return append(op, {narrow(op, chunk, inner), narrow(op, chunk, other)}, chunk);
  }

  // The count alone, of one that is kept from zero: a mean of nothing is no number.
  ValueId without_guard(const ir::Op& op) const {
    double least = 0;
    ValueId x = op.operands.empty() ? ValueId() : op.operands[0];
    if (const auto* const clamp = std::get_if<ir::ClampAttrs>(&op.attrs)) {
      if (!std::isinf(clamp->max)) return {};
      least = clamp->min;
    } else if (op.kind == OpKind::kMaximum || op.kind == OpKind::kAdd) {
      const size_t constant = is_constant(op.operands[1]) ? 1 : 0;
      const std::optional<double> value = number(op.operands[constant]);
      if (!value) return {};
      least = *value;
      x = op.operands[1 - constant];
    } else {
      return {};
    }
    const bool whole = op.kind != OpKind::kAdd && least <= 1 && is_whole(x);
    return least >= 0 && (least <= kUnseen || whole) ? x : ValueId();
  }

  std::optional<double> number(ValueId v) const {
    const DType dtype = graph_.type(v).dtype;
    if (!is_constant(v)) return std::nullopt;
    const ir::ConstantData& data = graph_.constants()[graph_.value(v).payload].source.data;
    if (!data || data->size() != static_cast<size_t>(dtype_bytes(dtype))) return std::nullopt;
    if (int64_t whole = 0; dtype == DType::kI64) {
      std::memcpy(&whole, data->data(), sizeof whole);
      return static_cast<double>(whole);
    }
    if (!can_convert_elements(dtype, DType::kF32)) return std::nullopt;
    float value = 0;
    convert_elements(dtype, data->data(), DType::kF32, &value, 1);
    return value;
  }

  // Whole numbers, whatever their type.
  bool is_whole(ValueId v) const {
    if (!is_floating(graph_.type(v).dtype)) return true;
    const ir::Op* const op = maker(v);
    if (op == nullptr) return false;
    const bool keeps = op->kind == OpKind::kCast || op->kind == OpKind::kSum || op->kind == OpKind::kStepSum ||
                       op->kind == OpKind::kReshape || op->kind == OpKind::kSlice || op->kind == OpKind::kExpand ||
                       ir::is_conversion(op->kind);
    if (op->kind == OpKind::kMul) return is_whole(op->operands[0]) && is_whole(op->operands[1]);
    return keeps && is_whole(op->operands[0]);
  }

  // ---------------------------------------------------------------- addends
  // Where v is made, unless a conversion has that chunk to itself.
  ir::ChunkId chunk_of(ValueId v, ir::ChunkId otherwise) const {
    const ir::Op* op = maker(v);
    return op != nullptr && !ir::is_conversion(op->kind) ? op->chunk : otherwise;
  }

  ValueId append(const ir::Op& like, std::vector<ValueId> operands, ir::ChunkId chunk) {
    ir::GraphBuilder b = builder(like, chunk);
    return finish(b, b.add1(like.kind, std::move(operands), like.attrs));
  }
  ir::GraphBuilder builder(const ir::Op& like, ir::ChunkId chunk) {
    ir::GraphBuilder b(graph_, like.scope, like.prov);
    b.set_chunk(chunk);
    return b;
  }
  ValueId finish(const ir::GraphBuilder& b, ValueId v) {
    PIPER_CHECK(b.status().ok(), "a term of the loss: ", b.status().error().message);
    parameter_free_.resize(graph_.num_values(), false);
    fixed_.resize(graph_.num_values(), false);
    return v;
  }

  ValueId narrow(const ir::Op& like, ir::ChunkId chunk, ValueId x) {
    ir::GraphBuilder b = builder(like, chunk);
    return finish(b, b.cast(b.reshape(x, {}), DType::kF32));
  }

  // As f32 [], after what was around it, outermost first. `shape`: that the term had there, where it is not its own.
  // Where that reads a constant alone it is done where the term is made, else where it was.
  ValueId addend(ValueId v, std::optional<ir::Shape> shape, const std::vector<Around>& around) {
    const ir::Op last = graph_.op(graph_.value(graph_.loss).producer);
    ir::ChunkId chunk = chunk_of(v, around.empty() ? last.chunk : graph_.op(around.back().like).chunk);
    if (is_one_number(v) && are_of_one_number(around)) {
      v = narrow(last, chunk, v);
      for (size_t i = around.size(); i-- > 0;) v = around_number(around[i], v, chunk);
    } else {
      ir::GraphBuilder b = builder(last, chunk);
      v = finish(b, b.reshape(b.cast(v, DType::kF32), shape.value_or(graph_.type(v).shape)));
      for (size_t i = around.size(); i-- > 0;) v = around_tensor(around[i], v, chunk);
      v = narrow(last, chunk, v);
    }
    ir::GraphBuilder b = builder(last, chunk);
    return finish(b, b.made_by_program(v));
  }

  bool are_of_one_number(const std::vector<Around>& around) const {
    return std::all_of(around.begin(), around.end(), [&](const Around& step) {
      const ir::Op& op = graph_.op(step.like);
      return op.kind != OpKind::kMatmul && op.kind != OpKind::kWhere && is_one_number(op.results[0]) &&
             std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId x) { return is_one_number(x); });
    });
  }

  // The step with the number v, of shape [], in the place of its operand.
  ValueId around_number(const Around& step, ValueId v, ir::ChunkId& chunk) {
    const ir::Op op = graph_.op(step.like);
    switch (op.kind) {
      case OpKind::kNeg: return append(op, {v}, chunk);
      case OpKind::kSub: return step.operand == 0 ? v : negative(op, v, chunk);
      case OpKind::kMul:
      case OpKind::kDiv: {
        const ValueId other = op.operands[1 - step.operand];
        if (!is_constant(other)) chunk = op.chunk;
        return append(op, {v, narrow(op, chunk, other)}, chunk);
      }
      default: return v;  // sums are not rounded
    }
  }

  // The same of f32 with the shape of that operand; other terms are zeros.
  ValueId around_tensor(const Around& step, ValueId v, ir::ChunkId& chunk) {
    const ir::Op op = graph_.op(step.like);
    const ir::Shape shape = graph_.type(op.results[0]).shape;
    if (op.kind == OpKind::kCast || op.kind == OpKind::kDetach) return v;
    if (op.kind == OpKind::kAdd || op.kind == OpKind::kSub) {
      ir::GraphBuilder b = builder(op, chunk);
      v = finish(b, b.expand(v, shape));
      return op.kind == OpKind::kSub && step.operand == 1 ? negative(op, v, chunk) : v;
    }
    const std::vector<size_t> terms = linear_in(op);
    const auto is_term = [&](size_t i) { return std::find(terms.begin(), terms.end(), i) != terms.end(); };
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!is_term(i) && graph_.value(op.operands[i]).kind != ValueKind::kConstant) chunk = op.chunk;
    ir::GraphBuilder b = builder(op, chunk);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId x = op.operands[i];
      if (i == step.operand) operands.push_back(v);
      else if (is_term(i)) operands.push_back(b.expand(b.scalar(0, DType::kF32), graph_.type(x).shape));
      else operands.push_back(graph_.type(x).dtype == DType::kBool ? x : b.cast(x, DType::kF32));
    }
    return finish(b, b.add1(op.kind, std::move(operands), op.attrs));
  }

  ValueId negative(const ir::Op& like, ValueId v, ir::ChunkId chunk) {
    ir::GraphBuilder b = builder(like, chunk);
    return finish(b, b.add1(OpKind::kNeg, {v}));
  }

  void add_uncounted(ValueId v, const std::vector<Around>& around) {
    uncounted_.sums.push_back(addend(v, std::nullopt, around));
  }

  void add_counted(ValueId sum, ValueId count, ir::Shape shape, const std::vector<Around>& around) {
    ir::Graph::Mean mean;
    mean.cross_entropy = is_cross_entropy(sum, around);
    mean.sums = {addend(sum, std::move(shape), around)};
    mean.counts = {addend(count, std::nullopt, {})};
    graph_.means.push_back(std::move(mean));
  }

  // Unweighted and unsmoothed: the exponential of its mean is the perplexity.
  bool is_cross_entropy(ValueId v, const std::vector<Around>& around) const {
    if (!are_of_one_number(around)) return false;
    for (const Around& step : around) {
      const OpKind kind = graph_.op(step.like).kind;
      if (kind == OpKind::kMul || kind == OpKind::kDiv || kind == OpKind::kNeg) return false;
      if (kind == OpKind::kSub && step.operand == 1) return false;
    }
    const ir::Op* op = maker(v);
    while (op != nullptr && (op->kind == OpKind::kCast || op->kind == OpKind::kReshape)) op = maker(op->operands[0]);
    if (op == nullptr) return false;
    if (const auto* const head = std::get_if<ir::LinearCrossEntropyAttrs>(&op->attrs))
      return op->kind == OpKind::kLinearCrossEntropy && op->operands.size() < 5 && head->label_smoothing == 0;
    const bool weighted = op->operands.size() > 2 && op->operands[2].valid();
    return op->kind == OpKind::kCrossEntropySum && !weighted &&
           std::get<ir::CrossEntropyAttrs>(op->attrs).label_smoothing == 0;
  }

  ir::Graph& graph_;
  std::vector<bool> parameter_free_;  // [value]
  std::vector<bool> fixed_;           // [value] it is the same for all batches
  analysis::BatchMap batch_;
  std::vector<std::optional<bool>> divided_;  // [value of the graph as given] is_divided()
  ir::Graph::Mean uncounted_;
  std::string refused_;
};

}  // namespace

Status take_means(ir::Graph& graph, int64_t samples, const diag::Span& asked, diag::Diagnostics& diags) {
  std::string why = TakeMeans(graph, samples).run();
  for (size_t i = 0; i < graph.num_ops() && why.empty(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase == Phase::kCountFinish || op.kind == OpKind::kStepSum)
      why = graph.provenance().describe(op.prov) +
            " makes a number of the whole batch, which does more than divide a term of the loss";
  }
  if (why.empty()) return Status();
  auto error = diags.error("P0335", asked);
  error << "the loss cannot be evaluated over several batches: " << why;
  error.help("divide terms of the loss by a count of the labels or by the sum of a mask, or leave `eval` out");
  return error;
}

}  // namespace piper::evaluation
