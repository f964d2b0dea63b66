#include "compiler/tensors/follow_cuts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/ir/axis_map.h"
#include "compiler/ir/op_traits.h"

namespace piper::tensors {
namespace {

using ir::AxisRole;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

bool is_parameter_of_one(const ir::Graph& graph, const ir::Uses& uses, ValueId v) {
  if (graph.value(v).kind != ir::ValueKind::kParameter || uses[v.index].size() != 1) return false;
  const ir::Parameter& p = graph.parameters()[graph.value(v).payload];
  const bool is_output = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                     [&](const ir::Graph::Output& output) { return output.value == v; });
  return p.shards == 1 && !p.cut && !p.matrix && p.buffer == plan::ModelBuffer::kNone && !is_output;
}

// One walk through the graph with a set of seeds.
class Walk {
 public:
  Walk(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ChunkCut>& chunks,
       const std::vector<bool>& has_gradient, const std::vector<OpId>& seeds)
      : graph_(graph),
        uses_(uses),
        chunks_(chunks),
        has_gradient_(has_gradient),
        seeds_(seeds.begin(), seeds.end()),
        from_(graph.num_values()) {
    found_.part.assign(graph.num_values(), -1);
    found_.share.assign(graph.num_values(), false);
    found_.seeds = seeds;
  }

  FollowedCuts run() {
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId id(i);
      const ir::Op& op = graph_.op(id);
      const bool reads_part =
          std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return is_part(v); });
      if (reads_part) go_on(id);
      else if (seeds_.count(id) > 0) begin(id);
    }
    for (const ir::Graph::Output& output : graph_.outputs)
      if (is_part(output.value))
        found_.obstacles.push_back(
            {graph_.value(output.value).producer, "makes an output of the model", false, seeds_of(output.value)});
    return std::move(found_);
  }

 private:
  bool is_part(ValueId v) const { return v.valid() && found_.part[v.index] >= 0; }
  std::vector<OpId> seeds_of(ValueId v) const { return {from_[v.index].begin(), from_[v.index].end()}; }
  const ir::TensorType& type(ValueId v) const { return graph_.type(v); }

  // x [.., I], w [O / T, I], bias [O / T] -> [.., O / T]
  void begin(OpId id) {
    const ir::Op& op = graph_.op(id);
    cut(op.operands[1], 0, op.chunk);
    if (op.operands.size() > 2 && op.operands[2].valid()) cut(op.operands[2], 0, op.chunk);
    enter(id, 0);
    become_part(op.results[0], static_cast<int32_t>(type(op.results[0]).shape.size()) - 1, {id});
  }

  void go_on(OpId id) {
    const ir::Op& op = graph_.op(id);
    std::set<OpId> from;
    for (ValueId v : op.operands)
      if (is_part(v)) from.insert(from_[v.index].begin(), from_[v.index].end());
    const ChunkCut& here = chunks_[op.chunk.index];
    const auto other_cut = [&](OpId seed) { return chunks_[graph_.op(seed).chunk.index].cut != here.cut; };
    if (std::any_of(from.begin(), from.end(), other_cut))
      return stop(id, "is of a region that this 'shard' does not cut", from);
    if (op.kind == OpKind::kLinear) return sum_rows(id, from);
    if (op.kind == OpKind::kDropout) return stop(id, "draws one mask for the whole", from);
    follow(id, from, here.places);
  }

  // A product that sums over what is cut.
  void sum_rows(OpId id, const std::set<OpId>& from) {
    const ir::Op& op = graph_.op(id);
    const ValueId x = op.operands[0], w = op.operands[1];
    if (!is_part(x) || is_part(w) || found_.part[x.index] != static_cast<int32_t>(type(x).shape.size()) - 1 ||
        !is_parameter_of_one(graph_, uses_, w))
      return stop(id, "is no product by a weight of its own over these features", from);
    cut(w, 1, op.chunk);
    found_.share[op.results[0].index] = true;
  }

  void follow(OpId id, const std::set<OpId>& from, int64_t places) {
    const ir::Op& op = graph_.op(id);
    const ir::AxisMap map(graph_, op);
    const ir::OpAxis* along = nullptr;
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      if (!is_part(op.operands[i])) continue;
      const ir::OpAxis* axis = outermost(map, i, found_.part[op.operands[i].index]);
      if (axis == nullptr || (along != nullptr && axis != along))
        return stop(id, "needs the whole of what it reads", from);
      along = axis;
    }
    if (along->extent % places != 0) return stop(id, "has " + std::to_string(along->extent) + " of them", from, true);
    if (along->role == AxisRole::kSummed && (op.kind == OpKind::kSum || op.kind == OpKind::kMatmul)) {
      for (uint32_t i = 0; i < op.operands.size(); ++i)
        if (!fits(id, i, *along)) return stop(id, "reads something that is not cut alike", from);
      for (uint32_t i = 0; i < op.operands.size(); ++i) take(id, i, *along);
      found_.share[op.results[0].index] = true;
      return;
    }
    if (along->role != AxisRole::kEach) return stop(id, "needs the whole of what it reads", from);
    for (uint32_t r = 0; r < op.results.size(); ++r)
      if (const ir::AxisPlace* place = along->in_result(r); place == nullptr || place->factor.outer != 1)
        return stop(id, "does not make a part of what it makes", from);
    for (uint32_t i = 0; i < op.operands.size(); ++i)
      if (!fits(id, i, *along)) return stop(id, "reads something that is not cut alike", from);
    for (uint32_t i = 0; i < op.operands.size(); ++i) take(id, i, *along);
    for (uint32_t r = 0; r < op.results.size(); ++r)
      become_part(op.results[r], static_cast<int32_t>(along->in_result(r)->axis), from);
  }

  // The outermost factor of an operand's axis.
  static const ir::OpAxis* outermost(const ir::AxisMap& map, uint32_t operand, int64_t axis) {
    for (const ir::OpAxis& one : map.axes())
      for (const ir::AxisPlace& place : one.operands)
        if (place.index == operand && place.axis == axis && place.factor.outer == 1 && !place.repeats) return &one;
    return nullptr;
  }
  static const ir::AxisPlace* in_operand(const ir::OpAxis& axis, uint32_t operand) {
    for (const ir::AxisPlace& place : axis.operands)
      if (place.index == operand) return &place;
    return nullptr;
  }

  // Whether an operand is a part, can be one, or lacks the axis.
  bool fits(OpId id, uint32_t operand, const ir::OpAxis& along) const {
    const ValueId v = graph_.op(id).operands[operand];
    if (!v.valid() || is_part(v)) return true;
    const ir::AxisPlace* place = in_operand(along, operand);
    if (place == nullptr || place->repeats) return true;
    return place->factor.outer == 1 && is_parameter_of_one(graph_, uses_, v);
  }
  void take(OpId id, uint32_t operand, const ir::OpAxis& along) {
    const ValueId v = graph_.op(id).operands[operand];
    if (!v.valid() || is_part(v)) return;
    const ir::AxisPlace* place = in_operand(along, operand);
    if (place != nullptr && !place->repeats) cut(v, static_cast<int32_t>(place->axis), graph_.op(id).chunk);
    else enter(id, operand);
  }

  void cut(ValueId parameter, int32_t axis, ir::ChunkId chunk) { found_.weights.push_back({parameter, axis, chunk}); }
  void enter(OpId id, uint32_t operand) {
    if (has_gradient_[graph_.op(id).operands[operand].index]) found_.entered.emplace_back(id, operand);
  }
  void become_part(ValueId v, int32_t axis, const std::set<OpId>& from) {
    found_.part[v.index] = axis;
    from_[v.index] = from;
  }
  void stop(OpId id, std::string why, const std::set<OpId>& from, bool uneven = false) {
    found_.obstacles.push_back({id, std::move(why), uneven, {from.begin(), from.end()}});
  }

  const ir::Graph& graph_;
  const ir::Uses& uses_;
  const std::vector<ChunkCut>& chunks_;
  const std::vector<bool>& has_gradient_;
  const std::set<OpId> seeds_;
  std::vector<std::set<OpId>> from_;  // [value] of a part: the seeds that lead to it
  FollowedCuts found_;
};

// [value] whether a gradient of the loss may reach a trained parameter by it.
std::vector<bool> find_gradients(const ir::Graph& graph) {
  std::vector<bool> has(graph.num_values());
  for (const ir::Parameter& p : graph.parameters()) has[p.value.index] = p.trainable;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    const bool any =
        std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return v.valid() && has[v.index]; });
    for (ValueId result : op.results) has[result.index] = any && is_floating(graph.type(result).dtype);
  }
  return has;
}

}  // namespace

bool can_be_seed(const ir::Graph& graph, const ir::Uses& uses, const ir::Op& op) {
  if (op.kind != OpKind::kLinear || !is_parameter_of_one(graph, uses, op.operands[1])) return false;
  return op.operands.size() < 3 || !op.operands[2].valid() || is_parameter_of_one(graph, uses, op.operands[2]);
}

FollowedCuts follow_cuts(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, std::vector<OpId> seeds) {
  const ir::Uses uses = graph.uses();
  const std::vector<bool> has_gradient = find_gradients(graph);
  std::vector<Obstacle> obstacles;
  for (;;) {
    FollowedCuts found = Walk(graph, uses, chunks, has_gradient, seeds).run();
    if (found.obstacles.empty()) {
      found.obstacles = std::move(obstacles);
      // Products that sum over parts are none that begin them.
      found.seeds.erase(std::remove_if(found.seeds.begin(), found.seeds.end(),
                                       [&](OpId seed) { return found.part[graph.op(seed).results[0].index] < 0; }),
                        found.seeds.end());
      return found;
    }
    for (const Obstacle& obstacle : found.obstacles)
      for (const OpId seed : obstacle.seeds) seeds.erase(std::remove(seeds.begin(), seeds.end(), seed), seeds.end());
    obstacles.insert(obstacles.end(), std::make_move_iterator(found.obstacles.begin()),
                     std::make_move_iterator(found.obstacles.end()));
  }
}

}  // namespace piper::tensors
