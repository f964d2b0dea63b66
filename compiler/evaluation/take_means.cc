#include "compiler/evaluation/take_means.h"

#include <utility>
#include <vector>

#include "compiler/ir/copy_graph.h"
#include "compiler/ir/op_traits.h"
#include "schemas/base/check.h"

namespace piper::evaluation {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;
using ir::ValueKind;

// What is done to a term on its way to the loss: an operator on it and, where it takes two, a value that is the same
// for all batches.
struct Around {
  OpId like;
  ValueId other;
};

class TakeMeans {
 public:
  explicit TakeMeans(ir::Graph& graph) : graph_(graph) {
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

  void run() {
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      ir::Op& op = graph_.op(OpId(i));
      if (op.phase == Phase::kCount && op.kind != OpKind::kStepSum) op.phase = Phase::kForward;
    }
    for (ValueId loss : graph_.all_losses()) split(loss, {});
    if (!uncounted_.sums.empty()) graph_.means.push_back(std::move(uncounted_));
    if (graph_.means.empty()) return;
    graph_.loss_terms.clear();
    for (const ir::Graph::Mean& mean : graph_.means)
      for (const std::vector<ValueId>* addends : {&mean.sums, &mean.counts})
        graph_.loss_terms.insert(graph_.loss_terms.end(), addends->begin(), addends->end());
    graph_.loss = graph_.loss_terms.back();
    graph_.loss_terms.pop_back();
    ir::drop_unread(graph_);
  }

 private:
  const ir::Op* maker(ValueId v) const {
    const ir::Value& value = graph_.value(v);
    return value.kind == ValueKind::kOpResult ? &graph_.op(value.producer) : nullptr;
  }
  bool is_one_number(ValueId v) const { return graph_.type(v).elements() == 1; }
  bool is_constant(ValueId v) const { return graph_.value(v).kind == ValueKind::kConstant && is_one_number(v); }
  bool is_fixed(ValueId v) const { return fixed_[v.index] && is_one_number(v); }

  void split(ValueId v, std::vector<Around> around) {
    const ir::Op* made_by = maker(v);
    if (made_by == nullptr || !is_one_number(v)) return add_uncounted(v, around);
    const ir::Op op = *made_by;
    const OpId id = graph_.value(v).producer;
    const auto through = [&](size_t term, ValueId other) {
      around.push_back({id, other});
      split(op.operands[term], std::move(around));
    };
    switch (op.kind) {
      case OpKind::kAdd:
        if (!is_one_number(op.operands[0]) || !is_one_number(op.operands[1])) break;
        split(op.operands[0], around);
        return split(op.operands[1], std::move(around));
      case OpKind::kCast:
        if (!is_floating(graph_.type(op.operands[0]).dtype)) break;
        return split(op.operands[0], std::move(around));  // sums are not rounded
      case OpKind::kReshape: return split(op.operands[0], std::move(around));
      case OpKind::kNeg: return through(0, {});
      case OpKind::kMul:
        if (!is_one_number(op.operands[0]) || !is_one_number(op.operands[1])) break;
        for (const size_t i : {0, 1}) {
          const ValueId count = inverted(op.operands[i]);
          if (count.valid()) return add_counted(op.operands[1 - i], count, around);
        }
        for (const size_t i : {1, 0})
          if (is_fixed(op.operands[i])) return through(1 - i, op.operands[i]);
        break;
      case OpKind::kDiv: {
        if (!is_one_number(op.operands[0]) || !is_one_number(op.operands[1])) break;
        if (is_fixed(op.operands[1])) return through(0, op.operands[1]);
        const ValueId count = counted(op.operands[1]);
        if (count.valid()) return add_counted(op.operands[0], count, around);
        break;
      }
      default: break;
    }
    add_uncounted(v, around);
  }

  // The number that v is the inverse of, on a piece; invalid where it is none.
  ValueId inverted(ValueId v) {
    const ir::Op* op = maker(v);
    while (op != nullptr && (op->kind == OpKind::kCast || op->kind == OpKind::kReshape)) op = maker(op->operands[0]);
    if (op == nullptr || op->kind != OpKind::kReciprocal) return {};
    return counted(ValueId(op->operands[0]));
  }

  // What v, a number of the whole batch that no parameter enters, is on a piece; invalid where that does not add up.
  ValueId counted(ValueId v) {
    const ir::Op* made_by = maker(v);
    if (made_by == nullptr || !is_one_number(v) || !parameter_free_[v.index] || is_fixed(v)) return {};
    const ir::Op op = *made_by;
    if (op.kind == OpKind::kStepSum) return op.operands[0];
    if (op.phase != Phase::kCountFinish) return v;  // one piece is the batch
    const bool scaled = (op.kind == OpKind::kMul || op.kind == OpKind::kDiv) && is_constant(op.operands[1]);
    if (!scaled && op.kind != OpKind::kCast && op.kind != OpKind::kReshape) return {};
    const ValueId inner = counted(op.operands[0]);
    if (!inner.valid()) return {};
    std::vector<ValueId> operands = op.operands;
    operands[0] = inner;
    return append(op, std::move(operands), chunk_of(inner, op.chunk));
  }

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

  // As f32 [], after what was around it, outermost first. Where that reads a constant alone it is done where the term
  // is made, else where it was.
  ValueId addend(ValueId v, const std::vector<Around>& around) {
    const ir::Op last = graph_.op(graph_.value(graph_.loss).producer);
    ir::ChunkId chunk = chunk_of(v, around.empty() ? last.chunk : graph_.op(around.back().like).chunk);
    const auto narrow = [&](const ir::Op& like, ValueId x) {
      ir::GraphBuilder b = builder(like, chunk);
      return finish(b, b.cast(b.reshape(x, {}), DType::kF32));
    };
    v = narrow(last, v);
    for (size_t i = around.size(); i-- > 0;) {
      const ir::Op like = graph_.op(around[i].like);
      std::vector<ValueId> operands{v};
      if (const ValueId other = around[i].other; other.valid()) {
        if (!is_constant(other)) chunk = like.chunk;
        operands.push_back(narrow(like, other));
      }
      v = append(like, std::move(operands), chunk);
    }
    return v;
  }

  void add_uncounted(ValueId v, const std::vector<Around>& around) { uncounted_.sums.push_back(addend(v, around)); }

  void add_counted(ValueId sum, ValueId count, const std::vector<Around>& around) {
    ir::Graph::Mean mean;
    mean.cross_entropy = is_cross_entropy(sum, around);
    mean.sums = {addend(sum, around)};
    mean.counts = {addend(count, {})};
    graph_.means.push_back(std::move(mean));
  }

  // Unweighted and unsmoothed: the exponential of its mean is the perplexity.
  bool is_cross_entropy(ValueId v, const std::vector<Around>& around) const {
    for (const Around& step : around)
      if (step.other.valid() || graph_.op(step.like).kind == OpKind::kNeg) return false;
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
  ir::Graph::Mean uncounted_;
};

}  // namespace

Status take_means(ir::Graph& graph, const diag::Span& asked, diag::Diagnostics& diags) {
  TakeMeans(graph).run();
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kCountFinish && op.kind != OpKind::kStepSum) continue;
    auto error = diags.error("P0335", asked);
    error << "the loss cannot be evaluated over several batches: " << graph.provenance().describe(op.prov)
          << " makes a number of the whole batch by which a term is divided, and which does not add up over batches";
    error.help("divide by a count of the labels or by the sum of a mask, or leave `eval` out");
    return error;
  }
  return Status();
}

}  // namespace piper::evaluation
