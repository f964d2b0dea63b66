#include "compiler/tensors/rest.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/axis_map.h"
#include "compiler/ir/op_traits.h"
#include "compiler/tensors/products.h"

namespace piper::tensors {
namespace {

using ir::AxisRole;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

// The operator's axis that is cut where its result is.
const ir::OpAxis* axis_of_result(const ir::AxisMap& map, const PartAlong& part) {
  for (const ir::OpAxis& one : map.axes())
    if (const ir::AxisPlace* place = one.in_result(0); place != nullptr && is_there(*place, part)) return &one;
  return nullptr;
}

// The same axis elsewhere: of an operand or a result that has it, with so many segments in it.
PartAlong at_place(const ir::AxisPlace& place, int32_t segments) {
  return {static_cast<int32_t>(place.axis), segments * static_cast<int32_t>(place.factor.outer)};
}

// What has to be decided before a walk, and is found by the one before.
struct Decided {
  std::set<OpId> whole;                 // operators that are not at rest
  std::map<OpId, PartAlong> at_rest;    // ... that are, by their results
  std::set<ValueId> not_scattered;      // shares
  std::map<ValueId, PartAlong> wanted;  // shares of which a later reader wants a part
  std::set<ValueId> apart;              // parameters whose gradient is added up before what is the same at every place
  std::map<ValueId, OpId> mixed;        // parameters that are read whole, and so beside no parts: by what
  bool operator==(const Decided&) const = default;
};

// An axis of an operator, and equal segments of it of each of which a place has a part.
struct Along {
  const ir::OpAxis* axis = nullptr;
  int32_t segments = 1;
};

class RestWalk {
 public:
  RestWalk(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ChunkCut>& chunks,
           const FollowedCuts& columns, const std::vector<bool>& has_gradient, Decided& decided)
      : graph_(graph),
        uses_(uses),
        chunks_(chunks),
        columns_(columns),
        has_gradient_(has_gradient),
        decided_(decided),
        along_(graph.num_values()),
        cut_(graph.num_values(), -1),
        own_rows_(graph.num_values(), false),
        of_all_(graph.num_values(), false) {
    found_.part.resize(graph.num_values());
  }

  Rest run() {
    const int64_t length = length_of_sequence();
    for (const ir::Input& input : graph_.inputs())
      if (input.batched && shape(input.value).size() > 1 && shape(input.value)[1] == length)
        along_[input.value.index] = {1, 1};
    for (size_t i = 0; i < graph_.num_ops(); ++i) visit(OpId(i));
    for (const ir::Graph::Output& output : graph_.outputs)
      if (is_part(output.value)) found_.outputs.emplace_back(output.value, found_.part[output.value.index]);
    share_parameters();
    found_.mixed.assign(decided_.mixed.begin(), decided_.mixed.end());
    return std::move(found_);
  }

 private:
  bool is_part(ValueId v) const { return v.valid() && found_.part[v.index].axis >= 0; }
  const std::vector<int64_t>& shape(ValueId v) const { return graph_.type(v).shape; }
  const ChunkCut& here(const ir::Op& op) const { return chunks_[op.chunk.index]; }

  // For the first input of ids [B, S], or else of numbers [B, S, ..]; 0: there is none.
  int64_t length_of_sequence() const {
    for (const bool ids : {true, false})
      for (const ir::Input& input : graph_.inputs())
        if (const bool numbers = is_floating(graph_.type(input.value).dtype);
            input.batched && numbers != ids && shape(input.value).size() > (ids ? 1 : 2))
          return shape(input.value)[1];
    return 0;
  }

  void visit(OpId id) {
    const ir::Op& op = graph_.op(id);
    if (here(op).experts) follow_rows(id);
    if (std::any_of(op.results.begin(), op.results.end(), [&](ValueId v) {
          return columns_.part[v.index].axis >= 0 || columns_.share[v.index] || columns_.carried[v.index];
        }))
      return read_by_columns(id);
    const bool may_rest = here(op).cut >= 0 && op.phase == ir::Phase::kForward && decided_.whole.count(id) == 0;
    if (may_rest && here(op).experts && is_of_rows(id)) return;
    const size_t read = found_.own.size() + found_.entered.size();
    if (may_rest && rests(id)) {
      const bool beside = found_.own.size() + found_.entered.size() > read;
      if (is_of_all(op) && (beside || op.kind == OpKind::kDropout || reads_shared_parameter(op)))
        found_.stuck.push_back(id);
      return;
    }
    if (reads_rows(op)) return found_.stuck.push_back(id);
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      if (!op.operands[i].valid()) continue;
      if (is_part(op.operands[i])) {
        found_.whole.push_back({id, i, found_.part[op.operands[i].index]});
        if (const OpId made = graph_.value(op.operands[i]).producer; decided_.at_rest.erase(made) > 0)
          decided_.whole.insert(made);  // for a reader that is whole itself by now
        decide_before(op.operands[i]);
      }
      if (!is_view_of_parameter(op)) use_parameter(op.operands[i], -1, id);
    }
    follow_whole(id);
  }

  // ---------------------------------------------------------------- columns
  void read_by_columns(OpId id) {
    const ir::Op& op = graph_.op(id);
    const int32_t cut = here(op).cut;
    if (reads_rows(op)) return found_.stuck.push_back(id);
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      if (!is_part(v)) continue;
      const bool own = std::any_of(columns_.own.begin(), columns_.own.end(),
                                   [&](const OwnRead& read) { return read.op == id && read.operand == i; });
      (cut_[v.index] == cut && !own ? found_.inside : found_.whole).push_back({id, i, found_.part[v.index]});
      if (own) decide_before(v);
    }
    follow_whole(id);
    // The statistics of rows are wanted whole by the loss.
    if (cut < 0 || !columns_.share[op.results[0].index] || op.kind == OpKind::kRowLse) return;
    const ValueId share = op.results[0];
    PartAlong along = along_[share.index];
    if (const auto wanted = decided_.wanted.find(share); along.axis < 0 && wanted != decided_.wanted.end())
      along = wanted->second;
    if (along.axis < 0 || decided_.not_scattered.count(share) > 0) return;
    // All of a bias is added to each row of the sum, which must then have all features.
    const bool biased = bias_of(op).valid();
    if (biased && along.axis + 1 == static_cast<int32_t>(shape(share).size())) return;
    const int64_t extent = shape(share)[static_cast<size_t>(along.axis)];
    if (extent % (here(op).places * along.segments) != 0) return found_.uneven.emplace_back(id, extent), void();
    become_part(share, along, cut);
    found_.scattered.push_back(share);
    if (biased) use_parameter(bias_of(op), cut, id);
  }

  // ---------------------------------------------------------------- rows of experts
  // Exchanges across places bring rows of all of them, and take those back.
  static bool is_across(const ir::Op& op) {
    const auto* const exchange = std::get_if<ir::ExchangeAttrs>(&op.attrs);
    return exchange != nullptr && exchange->across >= 0;
  }
  bool is_of_all(const ir::Op& op) const {
    return std::any_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId v) { return v.valid() && of_all_[v.index]; });
  }
  void follow_rows(OpId id) {
    const ir::Op& op = graph_.op(id);
    const bool of_all = is_across(op) ? !of_all_[op.operands[0].index] : is_of_all(op);
    for (const ValueId result : op.results) of_all_[result.index] = of_all;
  }
  // Whether an operator that is not at rest reads these: what it would make of them is not known.
  bool reads_rows(const ir::Op& op) const {
    return is_across(op) || is_of_all(op) || std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
             return v.valid() && own_rows_[v.index];
           });
  }

  // A weight of which rows of all places make the gradient, and that is not of one expert.
  bool reads_shared_parameter(const ir::Op& op) const {
    return std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      const ValueId parameter = v.valid() ? parameter_of(v) : ValueId();
      return parameter.valid() && graph_.parameters()[graph_.value(parameter).payload].shards == 1;
    });
  }

  // Which rows of an order a place has, and how many, it finds out for its own tokens. Operators on these, and on rows
  // in such an order, which are as many equal segments as there are devices; what they then make is noted.
  bool is_of_rows(OpId id) {
    const ir::Op& op = graph_.op(id);
    const auto part = [&](size_t operand) { return found_.part[op.operands[operand].index]; };
    const auto own = [&](size_t operand) { return own_rows_[op.operands[operand].index]; };
    const auto becomes = [&](size_t result, PartAlong along) { become_part(op.results[result], along, here(op).cut); };
    const auto in_rows = [&](size_t operand) { return part(operand).axis == 0; };
    switch (op.kind) {
      case OpKind::kExpertOrder: {
        const auto& order = std::get<ir::ExpertOrderAttrs>(op.attrs);
        const int64_t rows = order.segment_rows(shape(op.operands[0])[0]);
        if (!in_rows(0) || order.capacity % here(op).places != 0 || rows % here(op).places != 0) return false;
        becomes(0, {0, static_cast<int32_t>(order.segments)});
        becomes(1, part(0));
        for (const size_t counted : {size_t{2}, size_t{3}}) own_rows_[op.results[counted].index] = true;
        if (std::count(graph_.dropped.begin(), graph_.dropped.end(), op.results[3]) > 0)
          found_.summed.push_back(op.results[3]);
        return true;
      }
      case OpKind::kAllToAll:
        if (!is_across(op) || (!own(0) && part(0).axis < 1)) return false;
        if (own(0)) own_rows_[op.results[0].index] = true;
        else becomes(0, part(0));
        return true;
      case OpKind::kSum:
        if (!own(0)) return false;
        own_rows_[op.results[0].index] = true;
        return true;
      case OpKind::kTakeRows:
        if (!in_rows(0) || !in_rows(1) || !in_rows(2)) return false;
        becomes(0, part(1));
        return true;
      case OpKind::kGroupedMatmul:
        if (!in_rows(0) || !own(2)) return false;
        becomes(0, part(0));
        return true;
      case OpKind::kGroupedExpand:
        if (!own(1)) return false;
        becomes(0, {0, static_cast<int32_t>(shape(op.operands[1])[0])});
        return true;
      case OpKind::kReshape: {
        if (!is_part(op.operands[0]) || cut_[op.operands[0].index] != here(op).cut) return false;
        const PartAlong along = reshaped(part(0), shape(op.operands[0]), shape(op.results[0]), here(op).places);
        if (along.axis >= 0) becomes(0, along);
        return along.axis >= 0;
      }
      default: return false;
    }
  }
  // Runs of elements that a place has, in another shape: where one axis counts them. No axis: none does.
  static PartAlong reshaped(const PartAlong& part, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                            int64_t places) {
    const int64_t each = ir::elements_behind(from, static_cast<size_t>(part.axis));
    const int64_t all = from[static_cast<size_t>(part.axis)] * each, period = all / part.segments;
    for (size_t d = 0; d < to.size(); ++d) {
      const int64_t behind = ir::elements_behind(to, d), here = to[d] * behind;
      if (here % period == 0 && period % places == 0 && period / places % behind == 0)
        return {static_cast<int32_t>(d), static_cast<int32_t>(here / period)};
    }
    return {};
  }

  // ---------------------------------------------------------------- at rest
  // Whether the operator works on parts; what it then reads and makes is noted.
  bool rests(OpId id) {
    const ir::Op& op = graph_.op(id);
    const ir::AxisMap map(graph_, op);
    Along along;
    if (std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return is_part(v); })) {
      if (!of_parts(op, map, along)) return false;
    } else if (!begins(id, map, along)) {
      return false;
    }
    if (along.axis->extent % (here(op).places * along.segments) != 0) {
      found_.uneven.emplace_back(id, along.axis->extent);
      return false;
    }
    const bool sums = along.axis->role == AxisRole::kSummed && op.kind == OpKind::kSum && along.segments == 1;
    if (along.axis->role != AxisRole::kEach && !sums) return false;
    for (uint32_t r = 0; r < op.results.size() && !sums; ++r)
      if (const ir::AxisPlace* place = along.axis->in_result(r);
          place == nullptr || (along.segments > 1 && !place->is_all()))
        return false;
    for (uint32_t i = 0; i < op.operands.size(); ++i)
      if (const ir::AxisPlace* place = along.axis->in_operand(i); place != nullptr && !place->repeats &&
                                                                  op.operands[i].valid() && !is_part(op.operands[i]) &&
                                                                  along.segments > 1 && !place->is_all())
        return false;
    for (uint32_t i = 0; i < op.operands.size(); ++i) take(id, i, along);
    if (sums) {
      found_.summed.push_back(op.results[0]);
      return true;
    }
    for (uint32_t r = 0; r < op.results.size(); ++r)
      become_part(op.results[r], at_place(*along.axis->in_result(r), along.segments), here(op).cut);
    return true;
  }

  // All operands in parts have one axis.
  bool of_parts(const ir::Op& op, const ir::AxisMap& map, Along& along) const {
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      if (!is_part(v)) continue;
      if (cut_[v.index] != here(op).cut) return false;
      const PartAlong part = found_.part[v.index];
      const ir::OpAxis* axis = axis_of_operand(map, i, part);
      if (axis == nullptr) return false;
      const int32_t segments = axis->in_operand(i)->is_all() ? part.segments : 1;
      if (along.axis != nullptr && (along.axis != axis || along.segments != segments)) return false;
      along = {axis, segments};
    }
    return true;
  }

  // Whether parts begin here: in rows of a table, in an input of numbers, or where a later reader wants them.
  bool begins(OpId id, const ir::AxisMap& map, Along& along) const {
    const ir::Op& op = graph_.op(id);
    if (const auto wanted = decided_.at_rest.find(id); wanted != decided_.at_rest.end()) {
      along = {axis_of_result(map, wanted->second), 1};
      return along.axis != nullptr;
    }
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      if (!v.valid() || along_[v.index].axis < 0 || along_[v.index].segments > 1) continue;
      const bool rows = op.kind == OpKind::kEmbedding && i == 1;
      const bool numbers = graph_.value(v).kind == ir::ValueKind::kInput && is_floating(graph_.type(v).dtype) &&
                           shape(v).size() > 2 && has_gradient_[op.results[0].index];
      if (!rows && !numbers) continue;
      along = {axis_of_operand(map, i, along_[v.index]), 1};
      return along.axis != nullptr;
    }
    return false;
  }

  // What an operator on parts does with an operand.
  void take(OpId id, uint32_t operand, const Along& along) {
    const ir::Op& op = graph_.op(id);
    const ValueId v = op.operands[operand];
    if (!v.valid() || is_part(v)) return;
    const ir::AxisPlace* place = along.axis->in_operand(operand);
    if (place != nullptr && !place->repeats) {
      const PartAlong part = at_place(*place, along.segments);
      found_.own.push_back({id, operand, part, has_gradient_[v.index]});
      use_parameter(v, -1, id);
      if (columns_.share[v.index] && uses_[v.index].size() == 1) decided_.wanted.emplace(v, part);
      else if (is_better_in_parts(v, here(op)) && part.segments == 1)
        decided_.at_rest.emplace(graph_.value(v).producer, part);
      return;
    }
    if (!has_gradient_[v.index]) return;
    if (const ValueId parameter = parameter_of(v); parameter.valid() && decided_.apart.count(parameter) == 0)
      use_parameter(v, here(op).cut, id);
    else found_.entered.push_back({id, operand, {}});
  }

  // Rows of a table are looked up in parts, and what repeats is repeated as often as is read.
  bool is_better_in_parts(ValueId v, const ChunkCut& cut) const {
    if (graph_.value(v).kind != ir::ValueKind::kOpResult || uses_[v.index].size() != 1) return false;
    const OpId id = graph_.value(v).producer;
    const ir::Op& made = graph_.op(id);
    const bool looks_up = made.kind == OpKind::kEmbedding && has_gradient_[v.index];
    const bool views = is_view(made.kind) && is_view_of_share(made.operands[0]);
    return (looks_up || views || made.kind == OpKind::kExpand) && here(made).cut == cut.cut &&
           decided_.whole.count(id) == 0;
  }

  // Nothing else reads it, nor what lies between.
  bool is_view_of_share(ValueId v) const {
    while (uses_[v.index].size() == 1 && !columns_.share[v.index] && graph_.value(v).kind == ir::ValueKind::kOpResult &&
           is_view(graph_.op(graph_.value(v).producer).kind))
      v = graph_.op(graph_.value(v).producer).operands[0];
    return uses_[v.index].size() == 1 && columns_.share[v.index];
  }

  void become_part(ValueId v, PartAlong part, int32_t cut) {
    found_.part[v.index] = along_[v.index] = part;
    cut_[v.index] = cut;
  }

  // ---------------------------------------------------------------- whole
  // Where the sequence is in what is made of the whole, by the first operand that has it. Of attention these are the
  // queries.
  void follow_whole(OpId id) {
    const ir::Op& op = graph_.op(id);
    const ir::AxisMap map(graph_, op);
    for (const bool trained : {true, false})
      for (uint32_t i = 0; i < op.operands.size(); ++i) {
        const ValueId v = op.operands[i];
        if (!v.valid() || along_[v.index].axis < 0 || has_gradient_[v.index] != trained) continue;
        const ir::OpAxis* axis = axis_of_operand(map, i, along_[v.index]);
        if (axis == nullptr || axis->results.empty()) continue;
        const int32_t segments = axis->in_operand(i)->is_all() ? along_[v.index].segments : 1;
        for (uint32_t r = 0; r < op.results.size(); ++r)
          if (const ir::AxisPlace* place = axis->in_result(r); place != nullptr && (segments == 1 || place->is_all()))
            along_[op.results[r].index] = at_place(*place, segments);
        return;
      }
  }

  // Whole is what leads to a value that is wanted whole, from where it is smaller on.
  void decide_before(ValueId v) {
    const int64_t bytes = graph_.type(v).bytes();
    std::vector<OpId> chain;
    while (graph_.value(v).kind == ir::ValueKind::kOpResult && (chain.empty() || uses_[v.index].size() == 1)) {
      const OpId id = graph_.value(v).producer;
      ValueId from;
      for (const ValueId operand : graph_.op(id).operands) {
        if (!is_part(operand)) continue;
        if (from.valid()) return;
        from = operand;
      }
      if (!from.valid() || columns_.share[v.index]) return;
      chain.push_back(id);
      if (graph_.type(from).bytes() > bytes) return;
      if (graph_.type(from).bytes() < bytes) return decided_.whole.insert(chain.begin(), chain.end());
      v = from;
    }
  }

  // ---------------------------------------------------------------- parameters
  static bool is_view(OpKind kind) {
    return kind == OpKind::kPermute || kind == OpKind::kReshape || kind == OpKind::kCast;
  }
  // The trained parameter that the value is, or is a view of.
  ValueId parameter_of(ValueId v) const {
    while (graph_.value(v).kind == ir::ValueKind::kOpResult && is_view(graph_.op(graph_.value(v).producer).kind))
      v = graph_.op(graph_.value(v).producer).operands[0];
    return graph_.value(v).kind == ir::ValueKind::kParameter && has_gradient_[v.index] ? v : ValueId();
  }
  bool is_view_of_parameter(const ir::Op& op) const { return is_view(op.kind) && parameter_of(op.operands[0]).valid(); }
  // `cut`: over whose places the operator has shares of the gradient; -1: the same at every place.
  void use_parameter(ValueId v, int32_t cut, OpId id) {
    if (!v.valid()) return;
    if (const ValueId parameter = parameter_of(v); parameter.valid()) used_[parameter].push_back({cut, id});
  }
  struct Use {
    int32_t cut = -1;
    OpId op;
  };
  // Whether all who read it as a whole make terms of parameters alone, as of a penalty.
  bool are_beside_terms(const std::vector<Use>& uses) const {
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      const ir::Op& op = graph_.op(use.op);
      if (use.cut >= 0) return !columns_.share[op.results[0].index];
      return std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
        return !v.valid() || graph_.value(v).kind == ir::ValueKind::kConstant || parameter_of(v).valid();
      });
    });
  }
  void share_parameters() {
    for (const auto& [parameter, chunk] : columns_.shared) used_.erase(parameter);
    // What operators of the columns read whole, or take their part of, has the same gradient at every place.
    for (const auto& [op, operand] : columns_.entered) use_parameter(graph_.op(op).operands[operand], -1, op);
    for (const OwnRead& read : columns_.own) use_parameter(graph_.op(read.op).operands[read.operand], -1, read.op);
    for (const auto& [parameter, uses] : used_) {
      const ir::Parameter& p = graph_.parameters()[graph_.value(parameter).payload];
      if (p.shards > 1 && p.share >= 0) continue;  // experts over the places
      const int32_t cut = uses[0].cut;
      const bool alike = !p.matrix && p.shards == 1 &&
                         std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return use.cut == cut; });
      if (!alike && !p.matrix && p.shards == 1 && are_beside_terms(uses)) {
        decided_.apart.insert(parameter);
        continue;
      }
      if (alike && cut >= 0) found_.shared.emplace_back(parameter, graph_.op(uses[0].op).chunk);
      const auto whole = std::find_if(uses.begin(), uses.end(), [](const Use& use) { return use.cut < 0; });
      if (!alike && whole != uses.end()) decided_.mixed.emplace(parameter, whole->op);
      for (const Use& use : uses) {
        if (alike || use.cut < 0) continue;
        const ValueId result = graph_.op(use.op).results[0];
        if (columns_.share[result.index]) decided_.not_scattered.insert(result);
        else decided_.whole.insert(use.op);
        decided_.at_rest.erase(use.op);
      }
    }
  }

  const ir::Graph& graph_;
  const ir::Uses& uses_;
  const std::vector<ChunkCut>& chunks_;
  const FollowedCuts& columns_;
  const std::vector<bool>& has_gradient_;
  Decided& decided_;
  std::vector<PartAlong> along_;  // [value] where the sequence is, of the whole
  std::vector<int32_t> cut_;      // [value] of a part
  std::vector<bool> own_rows_;    // [value] of the rows of the place's own tokens, or of those that it got, all
  std::vector<bool> of_all_;      // [value] of rows that all places have sent
  std::map<ValueId, std::vector<Use>> used_;
  Rest found_;
};

}  // namespace

Rest find_rest(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, const FollowedCuts& columns) {
  const ir::Uses uses = graph.uses();
  const std::vector<bool> has_gradient = find_gradients(graph);
  Decided decided;
  for (;;) {
    const Decided before = decided;
    Rest found = RestWalk(graph, uses, chunks, columns, has_gradient, decided).run();
    // Each walk decides more, or is the last: what is whole stays so.
    if (decided == before) return found;
  }
}

}  // namespace piper::tensors
