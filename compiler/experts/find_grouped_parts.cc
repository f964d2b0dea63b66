#include "compiler/experts/find_grouped_parts.h"

#include <algorithm>
#include <set>

namespace piper::experts {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using Kind = ExpertTransfer::Kind;

class GroupedSearch {
 public:
  GroupedSearch(const ExpertFacts& facts, OpId order)
      : graph_(facts.graph),
        uses_(facts.uses),
        order_(graph_.op(order)),
        rules_{graph_, std::get<ir::ExpertOrderAttrs>(order_.attrs).experts, facts.same_for_all} {
    part_.chunk = order_.chunk;
    part_.order = order;
    part_.experts = rules_.experts;
    part_.rows = graph_.type(order_.operands[0]).shape[0];
  }

  // True where the part can be cut; else `wrong` is the op that cannot.
  bool run(const std::vector<OpId>& ops) {
    for (OpId id : ops)
      if (takes_groups(graph_.op(id)) && !add_weight(id)) return false;
    for (OpId id : ops)
      if (!visit(id)) {
        wrong_ = id;
        return false;
      }
    return nothing_leaks();
  }
  GroupedPart& part() { return part_; }
  OpId wrong() const { return wrong_; }

 private:
  ValueId rows_order() const { return order_.results[0]; }
  ValueId position() const { return order_.results[1]; }
  ValueId counts() const { return order_.results[2]; }
  bool takes_groups(const ir::Op& op) const {
    return (op.kind == OpKind::kGroupedMatmul && op.operands[2] == counts()) ||
           (op.kind == OpKind::kGroupedExpand && op.operands[1] == counts());
  }
  ExpertMark row_mark() const { return {{}, {0, 1, part_.rows}}; }
  bool is_row(ValueId v) const {
    const auto found = part_.marks.find(v.index);
    return found != part_.marks.end() && found->second.token.present();
  }

  // The matrices that a product takes are a parameter [E, ..], seen through views and casts.
  bool add_weight(OpId id) {
    const ir::Op& op = graph_.op(id);
    const ValueId matrices = op.operands[op.kind == OpKind::kGroupedMatmul ? 1 : 0];
    std::vector<OpId> chain;
    ValueId at = matrices;
    wrong_ = id;
    while (graph_.value(at).kind == ir::ValueKind::kOpResult) {
      const OpId producer = graph_.value(at).producer;
      const ir::Op& view = graph_.op(producer);
      if (view.operands.size() != 1 || view.chunk != part_.chunk) return false;
      chain.push_back(producer);
      at = view.operands[0];
    }
    if (graph_.value(at).kind != ir::ValueKind::kParameter) return false;
    const ir::Parameter& parameter = graph_.parameters()[graph_.value(at).payload];
    const auto& shape = graph_.type(at).shape;
    if (parameter.shards != 1 || shape.empty() || shape[0] != part_.experts) return false;
    ExpertMark mark{{0, 1, 1}, {}};
    if (weights_.insert(at.index).second) part_.weights.push_back(at);
    part_.marks[at.index] = mark;
    for (auto view = chain.rbegin(); view != chain.rend(); ++view) {
      const ExpertTransfer t = transfer(rules_, graph_.op(*view), {&mark});
      if (t.kind != Kind::kFollows) return false;
      mark = t.results[0];
      part_.marks[graph_.op(*view).results[0].index] = mark;
      views_.insert(view->index);
    }
    return mark.expert == ExpertFactor{0, 1, 1};
  }

  bool visit(OpId id) {
    const ir::Op& op = graph_.op(id);
    if (views_.count(id.index)) {
      part_.ops.push_back({id, GroupedRole::kWeights});
      return true;
    }
    if (op.kind == OpKind::kTakeRows && op.operands[1] == rows_order()) {
      part_.marks[op.results[0].index] = row_mark();
      part_.ops.push_back({id, GroupedRole::kEnters});
      return !is_row(op.operands[0]);
    }
    if (op.kind == OpKind::kTakeRows && op.operands[1] == position() && is_row(op.operands[0])) {
      part_.ops.push_back({id, GroupedRole::kLeaves});
      return std::get<ir::TakeRowsAttrs>(op.attrs).repeat == 1;
    }
    if (takes_groups(op)) {
      part_.marks[op.results[0].index] = row_mark();
      part_.ops.push_back({id, GroupedRole::kInside});
      return op.kind == OpKind::kGroupedExpand || is_row(op.operands[0]);
    }
    return row_by_row(id);
  }

  bool row_by_row(OpId id) {
    const ir::Op& op = graph_.op(id);
    std::vector<const ExpertMark*> marks;
    bool any = false;
    for (ValueId v : op.operands) {
      const auto found = v.valid() ? part_.marks.find(v.index) : part_.marks.end();
      marks.push_back(found == part_.marks.end() ? nullptr : &found->second);
      any = any || marks.back() != nullptr;
    }
    if (!any) return true;
    const ExpertTransfer t = transfer(rules_, op, marks);
    if (t.kind != Kind::kFollows) return false;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      if (!v.valid() || marks[i] != nullptr) continue;
      if (t.wishes[i]) return false;
      part_.padding_is_read = part_.padding_is_read || graph_.value(v).kind != ir::ValueKind::kConstant;
    }
    for (size_t r = 0; r < op.results.size(); ++r) {
      if (t.results[r] != row_mark()) return false;
      part_.marks[op.results[r].index] = t.results[r];
    }
    part_.ops.push_back({id, GroupedRole::kInside});
    return true;
  }

  // Marked values are read by the part alone.
  bool nothing_leaks() {
    std::set<uint32_t> members;
    for (const GroupedOp& one : part_.ops) members.insert(one.op.index);
    for (const auto& [value, mark] : part_.marks)
      for (OpId reader : uses_[value])
        if (members.count(reader.index) == 0) {
          wrong_ = reader;
          return false;
        }
    return true;
  }

  const ir::Graph& graph_;
  const ir::Uses& uses_;
  const ir::Op& order_;
  ExpertRules rules_;
  GroupedPart part_;
  std::set<uint32_t> weights_, views_;
  OpId wrong_;
};

}  // namespace

Result<std::vector<GroupedPart>> find_grouped_parts(const ExpertFacts& facts, ir::ChunkId chunk, const diag::Span& span,
                                                    diag::Diagnostics& diags) {
  const ir::Graph& graph = facts.graph;
  std::vector<GroupedPart> parts;
  for (OpId id : facts.ops[chunk.index]) {
    const ir::Op& op = graph.op(id);
    if (op.kind != OpKind::kExpertOrder || std::get<ir::ExpertOrderAttrs>(op.attrs).segments != 1) continue;
    GroupedSearch search(facts, id);
    if (!search.run(facts.ops[chunk.index])) {
      const ir::Op& wrong = graph.op(search.wrong());
      auto error = diags.error("P0333", span);
      error << "'" << ir::op_name(wrong.kind) << "' of " << graph.provenance().describe(wrong.prov)
            << " uses rows or weights of all experts together, so they cannot be cut over devices";
      error.help(
          "recognised are products of rows with their experts' matrices, which are one parameter [experts, ..] read by "
          "only this region, and operators row by row between them");
      return error;
    }
    if (!search.part().weights.empty()) parts.push_back(std::move(search.part()));
  }
  return parts;
}

}  // namespace piper::experts
