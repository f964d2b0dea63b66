#include "compiler/passes/spread_losses.h"

#include <algorithm>
#include <set>
#include <vector>

#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using ir::ValueKind;

// A term and the scalar operators around it, outermost first.
struct Term {
  ValueId value;
  std::vector<OpId> around;
};

class Spread {
 public:
  explicit Spread(ir::ChunkedGraph& chunked)
      : chunked_(chunked), graph_(chunked.graph), uses_(graph_.uses()), drop_(graph_.num_ops(), false) {}

  void run() {
    collect(graph_.loss, {}, true);
    std::set<ir::ChunkId> chunks;
    for (const Term& term : terms_)
      if (term.value.valid() && graph_.value(term.value).kind == ValueKind::kOpResult)
        chunks.insert(graph_.op(graph_.value(term.value).producer).chunk);
    if (chunks.size() < 2) return;
    const ir::ChunkId last = graph_.op(graph_.value(graph_.loss).producer).chunk;
    const ValueId whole = graph_.loss;
    std::vector<ValueId> placed;
    for (size_t t = 0; t < terms_.size(); ++t)
      if (first_of(t) == t) placed.push_back(together(t, last));
    graph_.loss = placed.back();
    placed.pop_back();
    graph_.loss_terms = std::move(placed);
    graph_.outputs.erase(
        std::remove_if(graph_.outputs.begin(), graph_.outputs.end(), [&](const auto& o) { return o.value == whole; }),
        graph_.outputs.end());
    drop_.resize(graph_.num_ops(), false);
    graph_.remove_ops(drop_);
  }

 private:
  bool is_constant(ValueId v) const {
    return v.valid() && graph_.value(v).kind == ValueKind::kConstant && graph_.type(v).elements() == 1;
  }

  void collect(ValueId v, std::vector<OpId> around, bool is_loss) {
    const ir::Value& value = graph_.value(v);
    const bool only_here = value.kind == ValueKind::kOpResult && uses_[v.index].size() == (is_loss ? 0 : 1);
    // What is made once a step, of a sum over it, is a term as it is: forwards read what count_finish made alone.
    const bool in_forward = only_here && graph_.op(value.producer).phase == ir::Phase::kForward;
    if (in_forward && value.type.elements() == 1) {
      const OpId id = value.producer;
      const ir::Op& op = graph_.op(id);
      if (op.kind == OpKind::kAdd && op.operands[0] != op.operands[1] && graph_.type(op.operands[0]).elements() == 1 &&
          graph_.type(op.operands[1]).elements() == 1) {
        drop_[id.index] = true;
        const std::vector<ValueId> operands = op.operands;
        for (ValueId operand : operands) collect(operand, around, false);
        return;
      }
      const bool scaled = (op.kind == OpKind::kMul || op.kind == OpKind::kDiv) && is_constant(op.operands[1]);
      if (scaled || op.kind == OpKind::kNeg || op.kind == OpKind::kReshape || op.kind == OpKind::kCast) {
        if (graph_.type(op.operands[0]).elements() == 1) {
          drop_[id.index] = true;
          around.push_back(id);
          collect(op.operands[0], std::move(around), false);
          return;
        }
      }
    }
    terms_.push_back({v, std::move(around)});
  }

  // What a number is a view of.
  ValueId source(ValueId v) const {
    while (v.valid() && graph_.value(v).kind == ValueKind::kOpResult) {
      const ir::Op& op = graph_.op(graph_.value(v).producer);
      const bool moved = op.kind == OpKind::kReshape || op.kind == OpKind::kExpand || op.kind == OpKind::kPermute ||
                         op.kind == OpKind::kSlice;
      if (!moved || graph_.type(op.operands[0]).elements() != 1 || graph_.type(v).elements() != 1) break;
      v = op.operands[0];
    }
    return v;
  }

  size_t first_of(size_t t) const {
    const ValueId number = source(terms_[t].value);
    const auto same = [&](const Term& term) { return source(term.value) == number; };
    return static_cast<size_t>(std::find_if(terms_.begin(), terms_.end(), same) - terms_.begin());
  }

  bool is_exchanged(ValueId v) const {
    if (graph_.value(v).kind != ValueKind::kOpResult) return false;
    const ir::ChunkId chunk = graph_.op(graph_.value(v).producer).chunk;
    return chunk.valid() && chunked_.chunks[chunk.index].exchange;
  }
  // An exchange has conversions alone: what is around its result stays where it was.
  ir::ChunkId chunk_of(const Term& term, ir::ChunkId otherwise) const {
    if (graph_.value(term.value).kind != ValueKind::kOpResult) return otherwise;
    if (!is_exchanged(term.value)) return graph_.op(graph_.value(term.value).producer).chunk;
    return term.around.empty() ? otherwise : graph_.op(term.around.back()).chunk;
  }

  // The terms of one number, added up: what is added to the step's loss is added once.
  ValueId together(size_t first, ir::ChunkId otherwise) {
    ValueId sum = place(terms_[first], otherwise);
    for (size_t t = first + 1; t < terms_.size(); ++t) {
      if (first_of(t) != first) continue;
      const ValueId other = place(terms_[t], otherwise);
      const OpId made = graph_.append(OpKind::kAdd, {}, {sum, other}, {graph_.type(sum)}, ir::ScopeId(), ir::ProvId());
      graph_.op(made).chunk = chunk_of(terms_[t], otherwise);
      sum = graph_.op(made).results[0];
    }
    return sum;
  }

  ValueId place(const Term& term, ir::ChunkId otherwise) {
    ValueId v = term.value;
    const ir::ChunkId chunk = chunk_of(term, otherwise);
    for (size_t i = term.around.size(); i-- > 0;) {
      const ir::Op op = graph_.op(term.around[i]);
      std::vector<ValueId> operands = op.operands;
      operands[0] = v;
      const OpId made =
          graph_.append(op.kind, op.attrs, std::move(operands), {graph_.type(op.results[0])}, op.scope, op.prov);
      graph_.op(made).chunk = chunk;
      v = graph_.op(made).results[0];
    }
    ir::GraphBuilder b(graph_, ir::ScopeId(), ir::ProvId());
    b.set_chunk(chunk);
    v = b.made_by_program(v);
    PIPER_CHECK(b.status().ok(), "a term of the loss");
    return v;
  }

  const ir::ChunkedGraph& chunked_;
  ir::Graph& graph_;
  ir::Uses uses_;
  std::vector<Term> terms_;
  std::vector<bool> drop_;  // [op]
};

}  // namespace

void spread_losses(ir::Module& module) {
  for (ir::ModelVariant& variant : module.variants) {
    ir::Graph& graph = variant.chunked.graph;
    if (graph.loss.valid() && graph.value(graph.loss).kind == ValueKind::kOpResult) Spread(variant.chunked).run();
  }
}

}  // namespace piper::passes
