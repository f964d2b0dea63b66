#include "compiler/experts/find_expert_parts.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace piper::experts {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using Kind = ExpertTransfer::Kind;

bool keeps_values(OpKind kind) {
  return kind == OpKind::kReshape || kind == OpKind::kPermute || kind == OpKind::kExpand || kind == OpKind::kCast;
}

// One attempt: marks from a set of weights.
class PartSearch {
 public:
  PartSearch(const ExpertFacts& facts, ir::ChunkId chunk, int64_t experts)
      : facts_(facts), graph_(facts.graph), rules_{facts.graph, experts, facts.same_for_all}, chunk_(chunk) {}

  // Readers of a weight that is cut must all be in the chunk.
  bool may_be_cut(const ir::Parameter& p) const {
    const std::vector<int64_t>& shape = graph_.type(p.value).shape;
    const std::span<const OpId> readers = facts_.uses[p.value.index];
    return p.shards == 1 && !shape.empty() && shape[0] == rules_.experts && !readers.empty() &&
           std::all_of(readers.begin(), readers.end(), [&](OpId op) { return graph_.op(op).chunk == chunk_; });
  }

  // False where `weights` changed and the search starts again.
  bool settle(std::set<uint32_t>& weights) {
    part_ = ExpertPart();
    blocked_.clear();
    touched_.clear();
    propagate(weights);
    if (join_biases(weights)) return false;
    find_components(weights);
    return !drop_useless(weights);
  }

  ExpertPart take_part(const std::set<uint32_t>& weights) {
    part_.chunk = chunk_;
    part_.experts = rules_.experts;
    for (uint32_t w : weights) part_.weights.push_back(ValueId(w));
    std::set<uint32_t> returned;
    std::set<uint32_t> members;
    for (const PartOp& one : part_.ops) members.insert(one.op.index);
    for (const auto& [value, mark] : part_.marks) {
      const ValueId v(value);
      if (graph_.value(v).kind != ir::ValueKind::kOpResult) continue;
      const auto outside = [&](OpId reader) { return members.count(reader.index) == 0; };
      bool leaves = v == graph_.loss || std::any_of(facts_.uses[value].begin(), facts_.uses[value].end(), outside);
      for (const ir::Graph::Output& output : graph_.outputs) leaves = leaves || output.value == v;
      if (leaves) returned.insert(value);
    }
    for (uint32_t value : returned) part_.returned.push_back(ValueId(value));
    return std::move(part_);
  }
  // Whether a product takes some weight expert by expert: the sign of a mixture of experts.
  bool by_expert() const { return by_expert_; }
  int64_t weight_bytes(const std::set<uint32_t>& weights) const {
    int64_t bytes = 0;
    for (uint32_t w : weights) bytes += graph_.type(ValueId(w)).bytes();
    return bytes;
  }
  // Ops that read weights, or what was made of weights alone, and cannot be cut.
  const std::vector<OpId>& blocked() const { return blocked_; }

 private:
  const ExpertMark* mark(ValueId v) const {
    if (!v.valid()) return nullptr;
    const auto found = part_.marks.find(v.index);
    return found == part_.marks.end() ? nullptr : &found->second;
  }

  void propagate(const std::set<uint32_t>& weights) {
    for (uint32_t w : weights) part_.marks[w] = {{0, 1, 1}, {}};
    for (OpId id : facts_.ops[chunk_.index]) {
      const ir::Op& op = graph_.op(id);
      std::vector<const ExpertMark*> marks;
      for (ValueId operand : op.operands) marks.push_back(mark(operand));
      if (std::all_of(marks.begin(), marks.end(), [](const ExpertMark* m) { return m == nullptr; })) continue;
      touched_.push_back(id);
      ExpertTransfer t = transfer(rules_, op, marks);
      if (t.kind == Kind::kStops) {
        if (std::any_of(marks.begin(), marks.end(),
                        [](const ExpertMark* m) { return m != nullptr && !m->token.present(); }))
          blocked_.push_back(id);
        continue;
      }
      if (t.kind == Kind::kFollows)
        for (size_t r = 0; r < op.results.size(); ++r) part_.marks[op.results[r].index] = t.results[r];
      part_.ops.push_back({id, std::move(t), 0});
    }
  }

  // A parameter [E, ..] that is combined element by element with what experts make belongs to them, whatever its rank.
  bool join_biases(std::set<uint32_t>& weights) const {
    for (OpId id : touched_) {
      const ir::Op& op = graph_.op(id);
      if (op.kind < OpKind::kAdd || op.kind > OpKind::kWhere) continue;
      for (ValueId other : op.operands)
        for (ValueId made : op.operands) {
          if (mark(made) == nullptr || mark(other) != nullptr) continue;
          const ValueId root = expert_root(other, made);
          if (root.valid() && weights.insert(root.index).second) return true;
        }
    }
    return false;
  }
  // The parameter that v is a view or cast of, if its first axis is where `made` has its experts.
  ValueId expert_root(ValueId v, ValueId made) const {
    std::vector<OpId> chain;
    ValueId at = v;
    while (graph_.value(at).kind == ir::ValueKind::kOpResult) {
      const OpId producer = graph_.value(at).producer;
      if (!keeps_values(graph_.op(producer).kind) || graph_.op(producer).chunk != chunk_) return {};
      chain.push_back(producer);
      at = graph_.op(producer).operands[0];
    }
    if (graph_.value(at).kind != ir::ValueKind::kParameter ||
        !may_be_cut(graph_.parameters()[graph_.value(at).payload]))
      return {};
    ExpertMark own{{0, 1, 1}, {}};
    for (auto op = chain.rbegin(); op != chain.rend(); ++op) {
      const ExpertTransfer t = transfer(rules_, graph_.op(*op), {&own});
      if (t.kind != Kind::kFollows) return {};
      own = t.results[0];
    }
    const ExpertFactor& there = mark(made)->expert;
    const auto from_end = [&](int64_t axis, ValueId value) {
      return static_cast<int64_t>(graph_.type(value).shape.size()) - axis;
    };
    const bool same = from_end(own.expert.axis, v) == from_end(there.axis, made) && own.expert.outer == there.outer &&
                      own.expert.inner == there.inner;
    return same ? at : ValueId();
  }

  void find_components(const std::set<uint32_t>& weights) {
    std::map<uint32_t, uint32_t> parent;  // of marked values
    const auto top = [&](uint32_t v) {
      while (parent[v] != v) v = parent[v];
      return v;
    };
    for (uint32_t w : weights) parent[w] = w;
    for (const PartOp& one : part_.ops) {
      const ir::Op& op = graph_.op(one.op);
      uint32_t first = UINT32_MAX;
      const auto join = [&](ValueId v) {
        if (!mark(v)) return;
        parent.emplace(v.index, v.index);
        const uint32_t root = top(v.index);
        if (first == UINT32_MAX) first = root;
        else parent[root] = top(first);
      };
      for (ValueId operand : op.operands) join(operand);
      for (ValueId result : op.results) join(result);
    }
    std::map<uint32_t, int32_t> number;
    for (PartOp& one : part_.ops) {
      for (ValueId operand : graph_.op(one.op).operands)
        if (mark(operand))
          one.component = number.emplace(top(operand.index), static_cast<int32_t>(number.size())).first->second;
    }
    component_of_weight_.clear();
    for (uint32_t w : weights) {
      const auto found = number.find(top(w));
      component_of_weight_[w] = found == number.end() ? -1 : found->second;
    }
    by_expert_components_.clear();
    meets_tokens_.clear();
    for (const PartOp& one : part_.ops) {
      const bool tokens = one.transfer.results.empty() || one.transfer.results[0].token.present();
      if (tokens) meets_tokens_.insert(one.component);
      if (takes_experts_one_by_one(one)) by_expert_components_.insert(one.component);
    }
    by_expert_ = !by_expert_components_.empty();
  }
  // A batched product with the experts among its leading axes, one operand made of weights alone.
  bool takes_experts_one_by_one(const PartOp& one) const {
    const ir::Op& op = graph_.op(one.op);
    if (op.kind != OpKind::kMatmul || one.transfer.kind != Kind::kFollows) return false;
    const int64_t rank = static_cast<int64_t>(graph_.type(op.results[0]).shape.size());
    if (one.transfer.results[0].expert.axis >= rank - 2) return false;
    return std::any_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId v) { return mark(v) && !mark(v)->token.present(); });
  }

  // Weights that no token meets are left whole; beside a mixture of experts, all others are too.
  bool drop_useless(std::set<uint32_t>& weights) {
    std::set<int32_t> blocked;
    std::set<uint32_t> blocked_weights;
    for (OpId id : blocked_)
      for (ValueId operand : graph_.op(id).operands) {
        if (!mark(operand)) continue;
        if (component_of_weight_.count(operand.index)) blocked_weights.insert(operand.index);
        for (const PartOp& one : part_.ops) {
          const auto& results = graph_.op(one.op).results;
          if (std::find(results.begin(), results.end(), operand) != results.end()) blocked.insert(one.component);
        }
      }
    bool dropped = false;
    for (const auto& [weight, component] : component_of_weight_) {
      const bool is_blocked = blocked.count(component) > 0 || blocked_weights.count(weight) > 0;
      const bool by_expert = by_expert_components_.count(component) > 0;
      const bool keep = component >= 0 && meets_tokens_.count(component) > 0 &&
                        (by_expert || (by_expert_components_.empty() && !is_blocked));
      if (!keep) dropped = weights.erase(weight) > 0 || dropped;
    }
    return dropped;
  }

  const ExpertFacts& facts_;
  const ir::Graph& graph_;
  const ExpertRules rules_;
  ir::ChunkId chunk_;
  ExpertPart part_;
  std::vector<OpId> touched_;  // ops that read something marked
  std::vector<OpId> blocked_;  // of these, what stops at a weight
  std::map<uint32_t, int32_t> component_of_weight_;
  std::set<int32_t> by_expert_components_, meets_tokens_;
  bool by_expert_ = false;
};

}  // namespace

ExpertFacts::ExpertFacts(const ir::Graph& graph, size_t num_chunks)
    : graph(graph), same_for_all(graph.num_values()), uses(graph.uses()), ops(num_chunks) {
  for (size_t v = 0; v < graph.num_values(); ++v) {
    const ir::ValueKind kind = graph.value(ValueId(v)).kind;
    same_for_all[v] =
        kind == ir::ValueKind::kParameter || kind == ir::ValueKind::kConstant || kind == ir::ValueKind::kSeedStep;
  }
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    const bool all = std::all_of(op.operands.begin(), op.operands.end(),
                                 [&](ValueId v) { return !v.valid() || same_for_all[v.index]; });
    for (ValueId result : op.results) same_for_all[result.index] = all;
    if (op.phase == ir::Phase::kForward && op.chunk.valid()) ops[op.chunk.index].push_back(OpId(i));
  }
}

Result<std::vector<ExpertPart>> find_expert_parts(const ExpertFacts& facts, ir::ChunkId chunk, const diag::Span& span,
                                                  diag::Diagnostics& diags) {
  const ir::Graph& graph = facts.graph;
  std::map<int64_t, std::set<uint32_t>> by_count;  // E -> parameters of three axes and more
  std::set<uint32_t> own;
  for (OpId id : facts.ops[chunk.index])
    for (ValueId operand : graph.op(id).operands)
      if (operand.valid() && graph.value(operand).kind == ir::ValueKind::kParameter) own.insert(operand.index);
  for (uint32_t v : own)
    if (const auto& shape = graph.type(ValueId(v)).shape; shape.size() >= 3 && shape[0] > 1)
      by_count[shape[0]].insert(v);
  struct Found {
    ExpertPart part;
    bool by_expert = false;
    int64_t bytes = 0;
    OpId blocked;
  };
  std::vector<Found> found;
  for (const auto& [experts, parameters] : by_count) {
    PartSearch search(facts, chunk, experts);
    std::set<uint32_t> weights;
    for (uint32_t v : parameters)
      if (search.may_be_cut(graph.parameters()[graph.value(ValueId(v)).payload])) weights.insert(v);
    while (!search.settle(weights)) {
    }
    if (weights.empty()) continue;
    const int64_t bytes = search.weight_bytes(weights);
    const OpId blocked = search.blocked().empty() ? OpId() : search.blocked()[0];
    found.push_back({search.take_part(weights), search.by_expert(), bytes, blocked});
  }
  // Batched products tell experts from other parameters of three axes; where there are none, the largest weights are
  // taken.
  const bool any = std::any_of(found.begin(), found.end(), [](const Found& f) { return f.by_expert; });
  int64_t largest = 0;
  for (const Found& f : found) largest = std::max(largest, f.bytes);
  std::vector<ExpertPart> parts;
  std::set<uint32_t> members;
  for (Found& f : found) {
    if (any ? !f.by_expert : f.bytes < largest) continue;
    OpId wrong = f.blocked;
    for (const PartOp& one : f.part.ops)
      if (!members.insert(one.op.index).second) wrong = one.op;
    for (ValueId v : f.part.returned)
      if (!wrong.valid() && !f.part.marks.at(v.index).token.present()) wrong = graph.value(v).producer;
    if (wrong.valid()) {
      const ir::Op& op = graph.op(wrong);
      std::string names;
      for (ValueId w : f.part.weights) names += (names.empty() ? "'" : ", '") + graph.value(w).name + "'";
      auto error = diags.error("P0333", span);
      error << "'" << ir::op_name(op.kind) << "' of " << graph.provenance().describe(op.prov)
            << " uses weights of all experts together, so they cannot be cut over devices";
      error.note("the weights of this region that are indexed by expert: " + names);
      error.help(
          "recognised are products expert by expert, element-wise operators and norms between them, and a sum over "
          "experts at the end");
      return error;
    }
    parts.push_back(std::move(f.part));
    if (!any) break;
  }
  return parts;
}

}  // namespace piper::experts
