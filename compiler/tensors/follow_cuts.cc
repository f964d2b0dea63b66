#include "compiler/tensors/follow_cuts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/ir/axis_map.h"
#include "compiler/ir/op_traits.h"

namespace piper::tensors {
namespace {

using ir::AxisRole;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

bool is_output(const ir::Graph& graph, ValueId v) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const ir::Graph::Output& output) { return output.value == v; });
}

bool is_parameter_of_one(const ir::Graph& graph, const ir::Uses& uses, ValueId v) {
  if (graph.value(v).kind != ir::ValueKind::kParameter || uses[v.index].size() != 1) return false;
  const ir::Parameter& p = graph.parameters()[graph.value(v).payload];
  return p.shards == 1 && !p.cut && !p.matrix && p.buffer == plan::ModelBuffer::kNone && !is_output(graph, v);
}

// A parameter that one operator reads, as it is or permuted.
struct OwnWeight {
  ValueId parameter, read;    // `read`: what the operator reads
  std::vector<int64_t> dims;  // read.shape[i] = parameter.shape[dims[i]]; empty: it is the parameter
};
OwnWeight own_weight(const ir::Graph& graph, const ir::Uses& uses, ValueId read) {
  if (is_parameter_of_one(graph, uses, read)) return {read, read, {}};
  const ir::Op* permute = graph.made_by(read, OpKind::kPermute);
  if (permute == nullptr || uses[read.index].size() != 1 || is_output(graph, read) ||
      !is_parameter_of_one(graph, uses, permute->operands[0]))
    return {};
  return {permute->operands[0], read, std::get<ir::PermuteAttrs>(permute->attrs).dims};
}

// One walk through the graph with a set of seeds.
class Walk {
 public:
  // `seeds`: with how many segments.
  Walk(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ChunkCut>& chunks,
       const std::vector<bool>& has_gradient, const std::map<OpId, int32_t>& seeds, const std::set<OpId>& logits)
      : graph_(graph),
        uses_(uses),
        chunks_(chunks),
        has_gradient_(has_gradient),
        seeds_(seeds),
        logits_(logits),
        from_(graph.num_values()) {
    found_.part.resize(graph.num_values());
    found_.share.assign(graph.num_values(), false);
  }

  FollowedCuts run() {
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId id(i);
      const ir::Op& op = graph_.op(id);
      const auto seed = seeds_.find(id);
      if (std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) { return is_part(v); })) go_on(id);
      else if (seed != seeds_.end()) begin(id, seed->second);
    }
    for (const ir::Graph::Output& output : graph_.outputs)
      if (is_part(output.value))
        found_.obstacles.push_back(
            {graph_.value(output.value).producer, "makes an output of the model", false, seeds_of(output.value)});
    return std::move(found_);
  }

 private:
  bool is_part(ValueId v) const { return v.valid() && found_.part[v.index].axis >= 0; }
  std::vector<OpId> seeds_of(ValueId v) const { return {from_[v.index].begin(), from_[v.index].end()}; }
  const ir::TensorType& type(ValueId v) const { return graph_.type(v); }
  int32_t last_axis(ValueId v) const { return static_cast<int32_t>(type(v).shape.size()) - 1; }

  // x [.., I], w [O / T, I], bias [O / T] -> [.., O / T]
  void begin(OpId id, int32_t segments) {
    const ir::Op& op = graph_.op(id);
    if (logits_.count(id) == 0) cut_weight(op.operands[1], {0, segments}, op.chunk, false);
    if (op.operands.size() > 2 && op.operands[2].valid()) cut(op.operands[2], {0, segments}, op.chunk, false);
    enter(id, 0);
    become_part(op.results[0], {last_axis(op.results[0]), segments}, {id});
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
    if (logits_.count(id) > 0) return stop(id, "makes logits, of which each place has some classes", from);
    if (std::any_of(from.begin(), from.end(), [&](OpId seed) { return logits_.count(seed) > 0; }))
      return follow_classes(id, from);
    if (op.kind == OpKind::kLinear) return sum_rows(id, from);
    if (op.kind == OpKind::kSlice) return slice(id, from, here.places);
    if (op.kind == OpKind::kDropout) return stop(id, "draws one mask for the whole", from);
    follow(id, from, here.places);
  }

  // Classes, of which the last place may have fewer: each by itself up to a loss.
  void follow_classes(OpId id, const std::set<OpId>& from) {
    const ir::Op& op = graph_.op(id);
    if (op.kind == OpKind::kCrossEntropySum && is_part(op.operands[0]) && found_.part[op.operands[0].index].axis == 1) {
      if (op.operands.size() > 2 && op.operands[2].valid()) return stop(id, "takes weights of all classes", from);
      if (std::get<ir::CrossEntropyAttrs>(op.attrs).label_smoothing != 0)
        return stop(id, "smooths labels over all classes", from);
      found_.losses.push_back(id);
      return;
    }
    const ir::AxisMap map(graph_, op);
    const ir::OpAxis* along = nullptr;
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      if (!is_part(op.operands[i])) continue;
      const ir::OpAxis* const axis = axis_of_operand(map, i, found_.part[op.operands[i].index]);
      if (axis == nullptr || (along != nullptr && axis != along)) along = nullptr, i = op.operands.size();
      else along = axis;
    }
    const bool each = along != nullptr && along->role == AxisRole::kEach && op.kind != OpKind::kDropout;
    for (uint32_t r = 0; r < op.results.size(); ++r)
      if (!each || along->in_result(r) == nullptr || !along->in_result(r)->is_all())
        return stop(id, "needs the logits of all classes", from);
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      const ir::AxisPlace* const place = along->in_operand(i);
      if (!op.operands[i].valid() || is_part(op.operands[i])) continue;
      if (place != nullptr && !place->repeats) return stop(id, "reads something that is not cut alike", from);
    }
    for (uint32_t r = 0; r < op.results.size(); ++r)
      become_part(op.results[r], {static_cast<int32_t>(along->in_result(r)->axis), 1}, from);
    for (uint32_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i].valid() && !is_part(op.operands[i])) enter(id, i);
  }

  // A product that sums over what is cut.
  void sum_rows(OpId id, const std::set<OpId>& from) {
    const ir::Op& op = graph_.op(id);
    const ValueId x = op.operands[0], w = op.operands[1];
    if (!is_part(x) || is_part(w) || found_.part[x.index].axis != last_axis(x) ||
        !own_weight(graph_, uses_, w).parameter.valid())
      return stop(id, "is no product by a weight of its own over these features", from);
    cut_weight(w, {1, found_.part[x.index].segments}, op.chunk, true);
    found_.share[op.results[0].index] = true;
  }

  // Whole segments of the axis that is cut, or any of another.
  void slice(OpId id, const std::set<OpId>& from, int64_t places) {
    const ir::Op& op = graph_.op(id);
    const auto& a = std::get<ir::SliceAttrs>(op.attrs);
    const PartAlong along = found_.part[op.operands[0].index];
    if (a.dim != along.axis) return become_part(op.results[0], along, from);
    const int64_t extent = type(op.operands[0]).shape[static_cast<size_t>(a.dim)], count = a.end - a.start;
    const int64_t segment = extent / along.segments;
    if (a.step == 1 && count > 0 && a.start % segment == 0 && count % segment == 0)
      return become_part(op.results[0], {along.axis, static_cast<int32_t>(count / segment)}, from);
    const int64_t each = std::gcd(std::gcd(a.start, count), extent);
    const bool fits = a.step == 1 && each > 1 && each % places == 0;
    stop(id, "takes a part of what it reads", from, false, fits ? static_cast<int32_t>(extent / each) : 1);
  }

  void follow(OpId id, const std::set<OpId>& from, int64_t places) {
    const ir::Op& op = graph_.op(id);
    const ir::AxisMap map(graph_, op);
    const ir::OpAxis* along = nullptr;
    int32_t segments = 1;
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      if (!is_part(op.operands[i])) continue;
      const PartAlong part = found_.part[op.operands[i].index];
      const ir::OpAxis* axis = axis_of_operand(map, i, part);
      if (axis == nullptr || (along != nullptr && (axis != along || part.segments != segments)))
        return stop(id, "needs the whole of what it reads", from, false, outer_of(map, i, part));
      along = axis;
      segments = axis->in_operand(i)->is_all() ? part.segments : 1;
    }
    if (along->extent % (places * segments) != 0)
      return stop(id, "has " + std::to_string(along->extent / segments) + " of them", from, true,
                  op.kind == OpKind::kReshape && segments == 1 ? static_cast<int32_t>(along->extent) : 1);
    for (uint32_t i = 0; i < op.operands.size(); ++i)
      if (!fits(id, i, *along, segments)) return stop(id, "reads something that is not cut alike", from);
    if (along->role == AxisRole::kSummed && (op.kind == OpKind::kSum || op.kind == OpKind::kMatmul)) {
      found_.share[op.results[0].index] = true;
    } else {
      if (along->role != AxisRole::kEach) return stop(id, "needs the whole of what it reads", from);
      for (uint32_t r = 0; r < op.results.size(); ++r)
        if (along->in_result(r) == nullptr || (segments > 1 && !along->in_result(r)->is_all()))
          return stop(id, "does not make a part of what it makes", from);
      for (uint32_t r = 0; r < op.results.size(); ++r) {
        const ir::AxisPlace& place = *along->in_result(r);
        become_part(op.results[r],
                    {static_cast<int32_t>(place.axis), segments * static_cast<int32_t>(place.factor.outer)}, from);
      }
    }
    for (uint32_t i = 0; i < op.operands.size(); ++i) take(id, i, *along, segments);
  }

  // The outermost factor of an axis of which the operator has several: maybe it numbers segments.
  static int32_t outer_of(const ir::AxisMap& map, uint32_t operand, const PartAlong& part) {
    for (const ir::OpAxis& one : map.axes())
      for (const ir::AxisPlace& place : one.operands)
        if (part.segments == 1 && place.index == operand && place.axis == part.axis && place.factor.outer == 1 &&
            place.factor.inner > 1)
          return static_cast<int32_t>(one.extent);
    return 1;
  }
  // Whether an operand is a part, can be one, or lacks the axis.
  bool fits(OpId id, uint32_t operand, const ir::OpAxis& along, int32_t segments) const {
    const ValueId v = graph_.op(id).operands[operand];
    if (!v.valid() || is_part(v)) return true;
    const ir::AxisPlace* place = along.in_operand(operand);
    if (place == nullptr || place->repeats) return true;
    return (segments == 1 || place->is_all()) && is_parameter_of_one(graph_, uses_, v);
  }
  void take(OpId id, uint32_t operand, const ir::OpAxis& along, int32_t segments) {
    const ValueId v = graph_.op(id).operands[operand];
    if (!v.valid() || is_part(v)) return;
    const ir::AxisPlace* place = along.in_operand(operand);
    if (place == nullptr || place->repeats) return enter(id, operand);
    cut(v, {static_cast<int32_t>(place->axis), segments * static_cast<int32_t>(place->factor.outer)},
        graph_.op(id).chunk, false);
  }

  void cut(ValueId parameter, PartAlong along, ir::ChunkId chunk, bool sums) {
    found_.weights.push_back({parameter, along, chunk, sums, false});
  }
  // `along`: an axis of what the product reads.
  void cut_weight(ValueId read, PartAlong along, ir::ChunkId chunk, bool sums) {
    const OwnWeight weight = own_weight(graph_, uses_, read);
    if (!weight.dims.empty()) {
      found_.part[read.index] = along;
      along.axis = static_cast<int32_t>(weight.dims[static_cast<size_t>(along.axis)]);
    }
    cut(weight.parameter, along, chunk, sums);
  }
  void enter(OpId id, uint32_t operand) {
    const ValueId v = graph_.op(id).operands[operand];
    if (!has_gradient_[v.index]) return;
    if (is_parameter_of_one(graph_, uses_, v)) found_.shared.emplace_back(v, graph_.op(id).chunk);
    else found_.entered.emplace_back(id, operand);
  }
  void become_part(ValueId v, PartAlong along, const std::set<OpId>& from) {
    found_.part[v.index] = along;
    from_[v.index] = from;
  }
  void stop(OpId id, std::string why, const std::set<OpId>& from, bool uneven = false, int32_t segments = 1) {
    found_.obstacles.push_back({id, std::move(why), uneven, {from.begin(), from.end()}, segments});
  }

  const ir::Graph& graph_;
  const ir::Uses& uses_;
  const std::vector<ChunkCut>& chunks_;
  const std::vector<bool>& has_gradient_;
  const std::map<OpId, int32_t>& seeds_;
  const std::set<OpId>& logits_;
  std::vector<std::set<OpId>> from_;  // [value] of a part: the seeds that lead to it
  FollowedCuts found_;
};

// Whether as many segments of each seed's features as the obstacle asks for can be tried.
bool can_have_segments(const ir::Graph& graph, const std::vector<ChunkCut>& chunks,
                       const std::map<OpId, int32_t>& seeds, const Obstacle& obstacle) {
  return obstacle.segments > 1 && std::all_of(obstacle.seeds.begin(), obstacle.seeds.end(), [&](OpId seed) {
           const ir::Op& op = graph.op(seed);
           const int64_t each = obstacle.segments * chunks[op.chunk.index].places;
           const auto known = seeds.find(seed);
           return known != seeds.end() && known->second == 1 && graph.type(op.operands[1]).shape[0] % each == 0;
         });
}

}  // namespace

bool is_there(const ir::AxisPlace& place, const PartAlong& part) {
  return place.axis == part.axis && !place.repeats && (place.factor.outer == part.segments || place.is_all());
}

const ir::OpAxis* axis_of_operand(const ir::AxisMap& map, uint32_t operand, const PartAlong& part) {
  for (const ir::OpAxis& one : map.axes())
    for (const ir::AxisPlace& place : one.operands)
      if (place.index == operand && is_there(place, part)) return &one;
  return nullptr;
}

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

ValueId weight_of(const ir::Graph& graph, const ir::Uses& uses, const ir::Op& op) {
  if (op.kind != OpKind::kLinear) return {};
  if (op.operands.size() > 2 && op.operands[2].valid() && !is_parameter_of_one(graph, uses, op.operands[2])) return {};
  return own_weight(graph, uses, op.operands[1]).parameter;
}

FollowedCuts follow_cuts(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, const std::vector<OpId>& all,
                         const std::vector<OpId>& logits) {
  const ir::Uses uses = graph.uses();
  const std::vector<bool> has_gradient = find_gradients(graph);
  std::map<OpId, int32_t> seeds;
  for (const OpId seed : all) seeds.emplace(seed, 1);
  for (const OpId seed : logits) seeds.emplace(seed, 1);
  const std::set<OpId> of_classes(logits.begin(), logits.end());
  std::vector<Obstacle> obstacles;
  for (;;) {
    FollowedCuts found = Walk(graph, uses, chunks, has_gradient, seeds, of_classes).run();
    if (found.obstacles.empty()) {
      found.obstacles = std::move(obstacles);
      return found;
    }
    const std::map<OpId, int32_t> tried = seeds;
    for (Obstacle& obstacle : found.obstacles) {
      const bool again = can_have_segments(graph, chunks, tried, obstacle);
      for (const OpId seed : obstacle.seeds)
        if (again && seeds.count(seed) > 0) seeds[seed] = obstacle.segments;
        else seeds.erase(seed);
      if (!again) obstacles.push_back(std::move(obstacle));
    }
  }
}

}  // namespace piper::tensors
