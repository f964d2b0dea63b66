#include "compiler/tensors/follow_cuts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
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

constexpr const char* kNeedsWhole = "needs the whole of what it reads";

bool is_output(const ir::Graph& graph, ValueId v) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const ir::Graph::Output& output) { return output.value == v; });
}

bool is_read_once(const ir::Graph& graph, const ir::Uses& uses, ValueId v) {
  if (uses[v.index].size() != 1) return false;
  const std::vector<ValueId>& operands = graph.op(uses[v.index][0]).operands;
  return std::count(operands.begin(), operands.end(), v) == 1;
}

// The axes of `from` that a reshape puts together into each axis of `to`, [begin, end); empty where an axis of extent
// one is new. Nothing: it does something else.
using Joined = std::vector<std::pair<size_t, size_t>>;
std::optional<Joined> joined_axes(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  Joined joined;
  size_t at = 0;
  for (const int64_t extent : to) {
    const size_t begin = at;
    int64_t all = 1;
    while (at < from.size() && all < extent) all *= from[at++];
    if (all != extent) return std::nullopt;
    joined.emplace_back(begin, at);
  }
  return at == from.size() ? std::optional(joined) : std::nullopt;
}

bool is_view_of_weight(const ir::Graph& graph, const ir::Op& op) {
  if (op.kind == OpKind::kPermute || op.kind == OpKind::kGroupedExpand) return true;
  return op.kind == OpKind::kReshape &&
         joined_axes(graph.type(op.operands[0]).shape, graph.type(op.results[0]).shape).has_value();
}

// A parameter that one operator reads: as it is, or through views of which each has one reader.
struct OwnWeight {
  ValueId parameter;
  std::vector<ValueId> views;  // from what is read to the parameter, without it
};
OwnWeight own_weight(const ir::Graph& graph, const ir::Uses& uses, ValueId read) {
  OwnWeight weight{read, {}};
  while (!is_parameter_of_one(graph, uses, weight.parameter)) {
    const ValueId v = weight.parameter;
    if (graph.value(v).kind != ir::ValueKind::kOpResult || !is_read_once(graph, uses, v) || is_output(graph, v))
      return {};
    const ir::Op& view = graph.op(graph.value(v).producer);
    if (!is_view_of_weight(graph, view)) return {};
    weight.views.push_back(v);
    weight.parameter = view.operands[0];
  }
  return weight;
}

// `along`: an axis of a view of a weight; where that is in what is viewed. Nothing: in several of its axes.
std::optional<PartAlong> part_before(const ir::Graph& graph, ValueId v, PartAlong along) {
  const ir::Op& view = graph.op(graph.value(v).producer);
  const auto axis = static_cast<size_t>(along.axis);
  if (const auto* permute = std::get_if<ir::PermuteAttrs>(&view.attrs))
    along.axis = static_cast<int32_t>(permute->dims[axis]);
  if (view.kind != OpKind::kReshape) return along;
  const std::vector<int64_t>& from = graph.type(view.operands[0]).shape;
  const auto [begin, end] = (*joined_axes(from, graph.type(v).shape))[axis];
  if (begin == end) return std::nullopt;
  const int64_t outer =
      std::accumulate(from.begin() + static_cast<std::ptrdiff_t>(begin),
                      from.begin() + static_cast<std::ptrdiff_t>(end) - 1, int64_t{1}, std::multiplies<>());
  if (along.segments % outer != 0 || (outer > 1 && !along.extents.empty())) return std::nullopt;
  along.axis = static_cast<int32_t>(end) - 1;
  along.segments /= static_cast<int32_t>(outer);
  return along;
}

// Parts of the views of a weight, from what is read on, and of the weight itself. Nothing: an axis of it has no such
// part.
std::optional<std::vector<PartAlong>> parts_of_views(const ir::Graph& graph, const OwnWeight& weight, PartAlong along) {
  std::vector<PartAlong> parts{std::move(along)};
  for (const ValueId view : weight.views) {
    std::optional<PartAlong> before = part_before(graph, view, parts.back());
    if (!before) return std::nullopt;
    parts.push_back(std::move(*before));
  }
  return parts;
}

// Extents of the segments of an axis, one after the other; empty: it is one.
using Segments = std::vector<int64_t>;

PartAlong along_segments(int32_t axis, Segments segments) {
  PartAlong along{axis, segments.empty() ? 1 : static_cast<int32_t>(segments.size()), {}};
  const bool equal = std::all_of(segments.begin(), segments.end(), [&](int64_t n) { return n == segments[0]; });
  if (!equal) along.extents = std::move(segments);
  return along;
}
// For an axis of this extent.
Segments segments_of(const PartAlong& along, int64_t extent) {
  return along.extents.empty() ? Segments(static_cast<size_t>(along.segments), extent / along.segments) : along.extents;
}

// One walk through the graph with a set of seeds.
class Walk {
 public:
  Walk(const ir::Graph& graph, const ir::Uses& uses, const std::vector<ChunkCut>& chunks,
       const std::vector<bool>& has_gradient, const std::map<OpId, Segments>& seeds, const std::set<OpId>& logits)
      : graph_(graph),
        uses_(uses),
        chunks_(chunks),
        has_gradient_(has_gradient),
        seeds_(seeds),
        logits_(logits),
        from_(graph.num_values()),
        of_samples_(find_of_samples(graph)) {
    found_.part.resize(graph.num_values());
    found_.share.assign(graph.num_values(), false);
    found_.carried.assign(graph.num_values(), false);
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

  // x [.., I], w [O / T, I] or as the product has its weight, bias [O / T] -> [.., O / T]
  void begin(OpId id, const Segments& segments) {
    const ir::Op& op = graph_.op(id);
    const int32_t out = weight_axes(graph_, op)->out;
    const int64_t places = chunks_[op.chunk.index].places;
    if (!segments.empty() && segments[0] % places != 0)
      return stop(id, "makes " + std::to_string(segments[0]) + " of them for each of several", {id}, true);
    const PartAlong along = along_segments(out, segments);
    if (logits_.count(id) == 0 && !is_own(op.operands[1], along))
      return stop(id, "has segments across the matrices that its weight is made of", {id});
    if (logits_.count(id) == 0) cut_weight(op.operands[1], along, op.chunk, false);
    if (bias_of(op).valid()) cut(bias_of(op), along_segments(0, segments), op.chunk, false);
    enter(id, 0);
    become_part(op.results[0], along_segments(last_axis(op.results[0]), segments), {id});
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
    if (op.kind == OpKind::kLinear || op.kind == OpKind::kGroupedMatmul) return sum_rows(id, from);
    if (op.kind == OpKind::kSlice) return slice(id, from, here.places);
    if (op.kind == OpKind::kDropout && !found_.part[op.operands[0].index].extents.empty())
      return stop(id, "draws a mask of segments of unequal size", from);
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
    PartAlong along = found_.part[x.index];
    const bool sums = is_part(x) && !is_part(w) && along.axis == last_axis(x);
    along.axis = weight_axes(graph_, op)->in;
    if (!sums || !is_own(w, along)) return stop(id, "is no product by a weight of its own over these features", from);
    cut_weight(w, along, op.chunk, true);
    found_.share[op.results[0].index] = true;
  }

  // Whole segments of the axis that is cut, or any of another.
  void slice(OpId id, const std::set<OpId>& from, int64_t places) {
    const ir::Op& op = graph_.op(id);
    const auto& a = std::get<ir::SliceAttrs>(op.attrs);
    const PartAlong along = found_.part[op.operands[0].index];
    if (a.dim != along.axis) return become_part(op.results[0], along, from);
    const int64_t extent = type(op.operands[0]).shape[static_cast<size_t>(a.dim)];
    // The segments that it takes, and all of them, cut where it begins and ends.
    Segments taken, finer;
    int64_t begin = 0;
    for (const int64_t each : segments_of(along, extent)) {
      const int64_t end = begin + each;
      if (begin >= a.start && end <= a.end) taken.push_back(each);
      for (const int64_t at : {a.start, a.end}) {
        if (at <= begin || at >= end) continue;
        finer.push_back(at - begin);
        begin = at;
      }
      finer.push_back(end - begin);
      begin = end;
    }
    if (a.step == 1 && !taken.empty() && std::accumulate(taken.begin(), taken.end(), int64_t{0}) == a.end - a.start)
      return become_part(op.results[0], along_segments(along.axis, std::move(taken)), from);
    const bool fits =
        a.step == 1 && std::all_of(finer.begin(), finer.end(), [&](int64_t n) { return n % places == 0; });
    stop(id, "takes a part of what it reads", from, false, fits ? std::move(finer) : Segments());
  }

  void follow(OpId id, const std::set<OpId>& from, int64_t places) {
    const ir::Op& op = graph_.op(id);
    const ir::AxisMap map(graph_, op);
    const ir::OpAxis* along = nullptr;
    int32_t segments = 1;
    Segments extents;  // of unequal ones, each of which the places divide
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      if (!is_part(op.operands[i])) continue;
      const PartAlong part = found_.part[op.operands[i].index];
      const ir::OpAxis* axis = axis_of_operand(map, i, part);
      // No other operand could help it.
      if (axis == nullptr || axis->role == AxisRole::kWhole)
        return stop(id, kNeedsWhole, from_[op.operands[i].index], false, outer_of(map, i, part));
      if (along != nullptr && (axis != along || part.segments != segments || part.extents != extents))
        return stop(id, kNeedsWhole, from);
      along = axis;
      extents = part.extents;
      segments = axis->in_operand(i)->is_all() ? part.segments : 1;
    }
    if (extents.empty() && along->extent % (places * segments) != 0)
      return stop(id, "has " + std::to_string(along->extent / segments) + " of them", from, true,
                  op.kind == OpKind::kReshape && segments == 1 ? numbered_by(*along) : Segments());
    for (uint32_t i = 0; i < op.operands.size(); ++i)
      if (!fits(id, i, *along, segments, extents)) return stop(id, "reads something that is not cut alike", from);
    if (along->role == AxisRole::kSummed && (op.kind == OpKind::kSum || op.kind == OpKind::kMatmul)) {
      found_.share[op.results[0].index] = true;
    } else {
      if (along->role != AxisRole::kEach) return stop(id, kNeedsWhole, from);
      for (uint32_t r = 0; r < op.results.size(); ++r)
        if (along->in_result(r) == nullptr || (segments > 1 && !along->in_result(r)->is_all()))
          return stop(id, "does not make a part of what it makes", from);
      for (uint32_t r = 0; r < op.results.size(); ++r) {
        const ir::AxisPlace& place = *along->in_result(r);
        become_part(op.results[r],
                    {static_cast<int32_t>(place.axis), segments * static_cast<int32_t>(place.factor.outer), extents},
                    from);
      }
    }
    for (uint32_t i = 0; i < op.operands.size(); ++i) take(id, i, *along, segments, extents);
  }

  // The outermost factor of an axis of which the operator has several: maybe it numbers segments.
  static Segments outer_of(const ir::AxisMap& map, uint32_t operand, const PartAlong& part) {
    for (const ir::OpAxis& one : map.axes())
      for (const ir::AxisPlace& place : one.operands)
        if (part.segments == 1 && place.index == operand && place.axis == part.axis && place.factor.outer == 1 &&
            place.factor.inner > 1)
          return Segments(static_cast<size_t>(one.extent), place.factor.inner);
    return {};
  }
  static Segments numbered_by(const ir::OpAxis& along) {
    return Segments(static_cast<size_t>(along.extent), along.operands.front().factor.inner);
  }
  // Whether an operand is a part, can be one, or lacks the axis.
  bool fits(OpId id, uint32_t operand, const ir::OpAxis& along, int32_t segments, const Segments& extents) const {
    const ValueId v = graph_.op(id).operands[operand];
    if (!v.valid() || is_part(v)) return true;
    const ir::AxisPlace* place = along.in_operand(operand);
    if (place == nullptr || place->repeats) return true;
    if (segments != 1 && !place->is_all()) return false;
    return is_own(v, part_at(*place, segments, extents)) || takes_own(id, operand, segments);
  }
  // Whether the place's part is taken of a whole operand: of keys, values and masks of attention, and of what is the
  // same for all samples, as biases of scores. The gradient is gathered.
  bool takes_own(OpId id, uint32_t operand, int32_t segments) const {
    const ir::Op& op = graph_.op(id);
    const ValueId v = op.operands[operand];
    return segments == 1 && graph_.value(v).kind == ir::ValueKind::kOpResult &&
           ((op.kind == OpKind::kSdpa && operand > 0) || !of_samples_[v.index]);
  }
  void take(OpId id, uint32_t operand, const ir::OpAxis& along, int32_t segments, const Segments& extents) {
    const ValueId v = graph_.op(id).operands[operand];
    if (!v.valid() || is_part(v)) return;
    const ir::AxisPlace* place = along.in_operand(operand);
    if (place == nullptr || place->repeats) return enter(id, operand);
    if (!is_own(v, part_at(*place, segments, extents)))
      return found_.own.push_back({id,
                                   operand,
                                   {static_cast<int32_t>(place->axis), static_cast<int32_t>(place->factor.outer)},
                                   has_gradient_[v.index]});
    cut_weight(v, part_at(*place, segments, extents), graph_.op(id).chunk, false);
  }

  void cut(ValueId parameter, PartAlong along, ir::ChunkId chunk, bool sums) {
    found_.weights.push_back({parameter, along, chunk, sums, false});
  }
  static PartAlong part_at(const ir::AxisPlace& place, int32_t segments, const Segments& extents) {
    return {static_cast<int32_t>(place.axis), segments * static_cast<int32_t>(place.factor.outer), extents};
  }
  // Whether what is read is a weight of its own, of which such a part is one.
  bool is_own(ValueId read, const PartAlong& along) const {
    const OwnWeight weight = own_weight(graph_, uses_, read);
    return weight.parameter.valid() && parts_of_views(graph_, weight, along).has_value();
  }
  // `along`: an axis of what is read.
  void cut_weight(ValueId read, const PartAlong& along, ir::ChunkId chunk, bool sums) {
    const OwnWeight weight = own_weight(graph_, uses_, read);
    const std::vector<PartAlong> parts = *parts_of_views(graph_, weight, along);
    for (size_t i = 0; i < weight.views.size(); ++i) found_.part[weight.views[i].index] = parts[i];
    cut(weight.parameter, parts.back(), chunk, sums);
  }
  void enter(OpId id, uint32_t operand) {
    const ValueId v = graph_.op(id).operands[operand];
    if (!has_gradient_[v.index]) return;
    const bool sharded =
        graph_.value(v).kind == ir::ValueKind::kParameter && graph_.parameters()[graph_.value(v).payload].shards > 1;
    if (!sharded && is_parameter_of_one(graph_, uses_, v)) found_.shared.emplace_back(v, graph_.op(id).chunk);
    else found_.entered.emplace_back(id, operand);
  }
  void become_part(ValueId v, PartAlong along, const std::set<OpId>& from) {
    found_.part[v.index] = along;
    from_[v.index] = from;
  }
  void stop(OpId id, std::string why, const std::set<OpId>& from, bool uneven = false, Segments extents = {}) {
    found_.obstacles.push_back({id, std::move(why), uneven, {from.begin(), from.end()}, std::move(extents)});
  }

  const ir::Graph& graph_;
  const ir::Uses& uses_;
  const std::vector<ChunkCut>& chunks_;
  const std::vector<bool>& has_gradient_;
  const std::map<OpId, Segments>& seeds_;
  const std::set<OpId>& logits_;
  std::vector<std::set<OpId>> from_;  // [value] of a part: the seeds that lead to it
  std::vector<bool> of_samples_;      // [value] as find_of_samples() says
  FollowedCuts found_;
};

// Into how many segments the axis of what is read is cut at least, where a place has a part of one axis of the weight:
// that which is the innermost of it, for each of the others. 0: there is none.
int32_t segments_of_weight(const ir::Graph& graph, const OwnWeight& weight, int32_t axis) {
  const int64_t extent = graph.type(weight.views.empty() ? weight.parameter : weight.views[0]).shape[axis];
  for (int64_t segments = 1; segments < extent; ++segments)
    if (extent % segments == 0 && parts_of_views(graph, weight, {axis, static_cast<int32_t>(segments)}))
      return static_cast<int32_t>(segments);
  return 0;
}
Segments first_segments(const ir::Graph& graph, const ir::Uses& uses, const ir::Op& product) {
  const int32_t segments =
      segments_of_weight(graph, own_weight(graph, uses, product.operands[1]), weight_axes(graph, product)->out);
  if (segments < 2) return {};
  return Segments(static_cast<size_t>(segments), features_of(graph, product) / segments);
}

// Cut where either is.
Segments of_both(const Segments& a, const Segments& b) {
  std::set<int64_t> ends;
  for (const Segments* const segments : {&a, &b}) {
    int64_t end = 0;
    for (const int64_t extent : *segments) ends.insert(end += extent);
  }
  Segments both;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    both.push_back(end - begin);
    begin = end;
  }
  return both;
}

// Whether such segments of each seed's features as the obstacle asks for can be tried: more than were tried before, of
// all of the features.
bool can_have_segments(const ir::Graph& graph, const std::vector<ChunkCut>& chunks,
                       const std::map<OpId, Segments>& seeds, const Obstacle& obstacle) {
  const Segments& extents = obstacle.extents;
  const auto fits = [&](OpId seed) {
    const ir::Op& op = graph.op(seed);
    const auto known = seeds.find(seed);
    const int64_t places = chunks[op.chunk.index].places;
    return known != seeds.end() && known->second.size() < extents.size() &&
           std::accumulate(extents.begin(), extents.end(), int64_t{0}) == features_of(graph, op) &&
           std::all_of(extents.begin(), extents.end(), [&](int64_t n) { return n % places == 0; });
  };
  return extents.size() > 1 && std::all_of(obstacle.seeds.begin(), obstacle.seeds.end(), fits);
}

}  // namespace

bool is_there(const ir::AxisPlace& place, const PartAlong& part) {
  return place.axis == part.axis && !place.repeats &&
         ((part.extents.empty() && place.factor.outer == part.segments) || place.is_all());
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

std::vector<bool> find_of_samples(const ir::Graph& graph) {
  std::vector<bool> of_samples(graph.num_values(), false);
  for (const ir::Input& input : graph.inputs()) of_samples[input.value.index] = true;
  for (const ir::Parameter& parameter : graph.parameters()) of_samples[parameter.value.index] = parameter.shards > 1;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    const bool any = std::any_of(op.operands.begin(), op.operands.end(),
                                 [&](ValueId v) { return v.valid() && of_samples[v.index]; });
    for (const ValueId result : op.results) of_samples[result.index] = any;
  }
  return of_samples;
}

bool is_parameter_of_one(const ir::Graph& graph, const ir::Uses& uses, ValueId v) {
  if (graph.value(v).kind != ir::ValueKind::kParameter || !is_read_once(graph, uses, v)) return false;
  const ir::Parameter& p = graph.parameters()[graph.value(v).payload];
  const bool by_expert = p.shards > 1 && graph.type(v).shape.size() == 1;  // no axis but that of the experts
  const bool over_places = p.shards > 1 && p.share >= 0;  // whole experts, of which another place has others
  return !by_expert && !over_places && !p.cut && !p.matrix && p.buffer == plan::ModelBuffer::kNone &&
         !is_output(graph, v);
}

ValueId weight_of(const ir::Graph& graph, const ir::Uses& uses, const ir::Op& op) {
  if (!weight_axes(graph, op)) return {};
  if (const ValueId bias = bias_of(op); bias.valid() && !is_parameter_of_one(graph, uses, bias)) return {};
  const OwnWeight own = own_weight(graph, uses, op.operands[1]);
  const ValueId weight = own.parameter;
  if (weight.valid() && segments_of_weight(graph, own, weight_axes(graph, op)->out) == 0) return {};
  // The experts are along the first axis, which is that of a matrix's rows.
  const bool by_expert = weight.valid() && graph.parameters()[graph.value(weight).payload].shards > 1;
  return by_expert && graph.type(weight).shape.size() < 3 ? ValueId() : weight;
}

FollowedCuts follow_cuts(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, const std::vector<OpId>& all,
                         const std::vector<OpId>& logits) {
  const ir::Uses uses = graph.uses();
  const std::vector<bool> has_gradient = find_gradients(graph);
  std::map<OpId, Segments> seeds;
  for (const OpId seed : all) seeds.emplace(seed, first_segments(graph, uses, graph.op(seed)));
  for (const OpId seed : logits) seeds.emplace(seed, Segments());
  const std::set<OpId> of_classes(logits.begin(), logits.end());
  std::vector<Obstacle> obstacles;
  std::map<OpId, Obstacle> segmented;  // what asked for segments of a seed
  for (;;) {
    FollowedCuts found = Walk(graph, uses, chunks, has_gradient, seeds, of_classes).run();
    if (found.obstacles.empty()) {
      found.obstacles = std::move(obstacles);
      return found;
    }
    // Segments first: with others of a seed it may not stop elsewhere.
    std::map<OpId, Segments> finer;
    for (const Obstacle& obstacle : found.obstacles)
      if (can_have_segments(graph, chunks, seeds, obstacle))
        for (const OpId seed : obstacle.seeds) {
          finer[seed] = finer.count(seed) > 0 ? of_both(finer[seed], obstacle.extents) : obstacle.extents;
          segmented.emplace(seed, obstacle);
        }
    for (auto& [seed, segments] : finer) seeds[seed] = std::move(segments);
    for (Obstacle& obstacle : found.obstacles) {
      if (std::any_of(obstacle.seeds.begin(), obstacle.seeds.end(), [&](OpId seed) { return finer.count(seed) > 0; }))
        continue;
      for (const OpId seed : obstacle.seeds) seeds.erase(seed);
      // Segments were a guess: what stopped all of it says more than what stops parts of segments.
      const auto first = obstacle.seeds.empty() ? segmented.end() : segmented.find(obstacle.seeds[0]);
      obstacles.push_back(first != segmented.end() && first->second.seeds == obstacle.seeds ? first->second
                                                                                            : std::move(obstacle));
    }
  }
}

}  // namespace piper::tensors
