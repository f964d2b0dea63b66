#include "compiler/tensors/carry_shares.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/tensors/products.h"

namespace piper::tensors {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

class Carrier {
 public:
  Carrier(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, FollowedCuts& found)
      : graph_(graph),
        chunks_(chunks),
        uses_(graph.uses()),
        has_gradient_(find_gradients(graph)),
        is_cut_(graph.num_values()),
        found_(found) {
    for (const FollowedCuts::Weight& weight : found.weights) is_cut_[weight.parameter.index] = true;
    for (const OwnRead& read : found.own) own_.emplace(read.op, read.operand);
  }

  void run() {
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (const ir::Op& op = graph_.op(OpId(i)); op.results.size() == 1 && found_.share[op.results[0].index] &&
                                                 !bias_of(op).valid() && weight_of(graph_, uses_, op).valid())
        add_up_later(OpId(i));
    for (auto& read : found_.entered) enter_earlier(read);
  }

 private:
  int32_t cut_of(OpId id) const { return chunks_[graph_.op(id).chunk.index].cut; }
  int64_t bytes(ValueId v) const { return graph_.type(v).bytes(); }
  bool is_output(ValueId v) const {
    return v == graph_.loss || std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                                           [&](const ir::Graph::Output& output) { return output.value == v; });
  }

  bool is_part(ValueId v) const { return found_.part[v.index].axis >= 0; }
  // What carries a share does: the product of two sums is not the sum of the places' products.
  bool differs_by_place(OpId id, uint32_t operand) const {
    const ValueId v = graph_.op(id).operands[operand];
    return is_part(v) || found_.share[v.index] || found_.carried[v.index] || is_cut_[v.index] ||
           own_.count({id, operand}) > 0;
  }

  // Whether the operator is linear in an operand, of which a place has the whole or a share, all others being the same
  // at every place.
  bool is_linear(OpId id, uint32_t operand) const {
    const ir::Op& op = graph_.op(id);
    if (op.results.size() != 1 || is_part(op.results[0]) || is_part(op.operands[operand])) return false;
    for (uint32_t i = 0; i < op.operands.size(); ++i)
      if (const ValueId v = op.operands[i]; v.valid() && i != operand)
        if (v == op.operands[operand] || differs_by_place(id, i)) return false;
    switch (op.kind) {
      case OpKind::kReshape:
      case OpKind::kPermute:
      case OpKind::kSum:
      case OpKind::kAllToAll:
      case OpKind::kTakeRows: return operand == 0;
      case OpKind::kMul:
      case OpKind::kMatmul: return true;
      default: return false;
    }
  }

  void add_up_later(OpId from) {
    ValueId v = graph_.op(from).results[0], best = v;
    std::vector<std::pair<OpId, uint32_t>> passed;  // with the operand that is the share
    size_t up_to = 0;                               // of these, where the sum is best
    while (uses_[v.index].size() == 1 && !is_output(v)) {
      const OpId reader = uses_[v.index][0];
      const auto& operands = graph_.op(reader).operands;
      const auto at = static_cast<uint32_t>(std::find(operands.begin(), operands.end(), v) - operands.begin());
      if (cut_of(reader) != cut_of(from) || !is_linear(reader, at) || is_output(graph_.op(reader).results[0])) break;
      passed.emplace_back(reader, at);
      v = graph_.op(reader).results[0];
      if (bytes(v) >= bytes(best)) continue;
      best = v;
      up_to = passed.size();
    }
    if (up_to == 0) return;
    found_.share[graph_.op(from).results[0].index] = false;
    found_.carried[graph_.op(from).results[0].index] = true;
    for (size_t k = 0; k < up_to; ++k) {
      const ir::Op& op = graph_.op(passed[k].first);
      found_.carried[op.results[0].index] = true;
      for (uint32_t i = 0; i < op.operands.size(); ++i)
        if (i != passed[k].second && op.operands[i].valid() && has_gradient_[op.operands[i].index])
          found_.entered.emplace_back(passed[k].first, i);
    }
    found_.carried[best.index] = false;
    found_.share[best.index] = true;
  }

  void enter_earlier(std::pair<OpId, uint32_t>& read) {
    ValueId v = graph_.op(read.first).operands[read.second];
    std::vector<OpId> passed;
    while (graph_.value(v).kind == ir::ValueKind::kOpResult && uses_[v.index].size() == 1 && !is_output(v)) {
      const OpId id = graph_.value(v).producer;
      const ir::Op& op = graph_.op(id);
      const auto others = std::count_if(op.operands.begin(), op.operands.end(),
                                        [&](ValueId o) { return o.valid() && has_gradient_[o.index]; });
      if (cut_of(id) != cut_of(read.first) || others != 1 || !is_linear(id, 0) || !has_gradient_[op.operands[0].index])
        return;
      passed.push_back(id);
      v = op.operands[0];
      if (bytes(v) >= bytes(op.results[0])) continue;
      for (const OpId one : passed) found_.carried[graph_.op(one).results[0].index] = true;
      passed.clear();
      read = {id, 0};
    }
  }

  const ir::Graph& graph_;
  const std::vector<ChunkCut>& chunks_;
  const ir::Uses uses_;
  const std::vector<bool> has_gradient_;
  std::vector<bool> is_cut_;                 // [value] a parameter of which each place has a part
  std::set<std::pair<OpId, uint32_t>> own_;  // operands of which an operator reads the place's part
  FollowedCuts& found_;
};

}  // namespace

void carry_shares(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, FollowedCuts& found) {
  Carrier(graph, chunks, found).run();
}

}  // namespace piper::tensors
