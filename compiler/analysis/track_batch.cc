// Factors of the operands -> factors of the results: as an operator's axis map says, and where the place of a sample is
// more than an axis, by its rule.
#include "compiler/analysis/track_batch.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "compiler/ir/axis_map.h"
#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::analysis {
namespace {

using ir::AxisRule;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

BatchFactor mixed() { return {BatchKind::kMixed}; }
bool has_axis(const BatchFactor& f) { return f.kind == BatchKind::kAxis || f.kind == BatchKind::kGrouped; }
bool reads_counts(OpKind kind) { return kind == OpKind::kGroupedMatmul || kind == OpKind::kGroupedExpand; }

class Tracker {
 public:
  Tracker(const ir::Graph& graph, int64_t local_batch) : graph_(graph), batch_(local_batch) {
    map_.values.resize(graph.num_values());
    of_data_.resize(graph.num_values());
    for (size_t v = 0; v < graph.num_values(); ++v) {
      const ir::ValueKind kind = graph.value(ValueId(v)).kind;
      of_data_[v] =
          kind == ir::ValueKind::kInput || kind == ir::ValueKind::kSampleOffset || graph.is_unchanging(ValueId(v));
    }
  }

  BatchMap run() {
    for (const ir::Input& input : graph_.inputs())
      if (input.batched && !shape(input.value).empty())
        map_.values[input.value.index] = {BatchKind::kAxis, 0, shape(input.value)[0] / batch_, 1};
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      const ir::Op& op = graph_.op(ir::OpId(i));
      const bool of_data = std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
        return !v.valid() || (of_data_[v.index] && map_.of(v).kind != BatchKind::kTotal);
      });
      for (ValueId result : op.results) of_data_[result.index] = of_data;
      look_at(ir::OpId(i));
      // What several samples made is on a piece another value than on the whole batch, and so are its sums.
      const bool mixes = !map_.mixers.empty() && map_.mixers.back() == ir::OpId(i);
      for (ValueId result : op.results)
        if (mixes || map_.of(result).kind == BatchKind::kMixed) of_data_[result.index] = false;
    }
    return std::move(map_);
  }

 private:
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  BatchFactor factor(const ir::Op& op, size_t operand) const {
    if (operand >= op.operands.size() || !op.operands[operand].valid()) return {};
    return map_.of(op.operands[operand]);
  }
  // Whether all pieces read the same here.
  bool is_same(const ir::Op& op, size_t operand) const {
    const BatchKind kind = factor(op, operand).kind;
    return kind == BatchKind::kNone || kind == BatchKind::kTotal;
  }

  void look_at(ir::OpId id) {
    const ir::Op& op = graph_.op(id);
    if (is_for_samples(op)) return;
    bool any_axis = false, any_mixed = false, any_total = false;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      any_axis = any_axis || has_axis(factor(op, i));
      any_mixed = any_mixed || factor(op, i).kind == BatchKind::kMixed;
      any_total = any_total || factor(op, i).kind == BatchKind::kTotal;
    }
    // How many rows each expert has depends on all samples. The groups may, anything else mixes samples.
    bool of_counts = false;
    for (ValueId operand : op.operands) of_counts = of_counts || is_count(operand);
    if (!any_axis && !of_counts) {
      for (ValueId result : op.results)
        if (any_mixed) map_.values[result.index] = mixed();
      if (any_total && !any_mixed && is_of_totals(op)) map_.values[op.results[0].index] = {BatchKind::kTotal};
      return;
    }
    for (size_t r = 0; r < op.results.size(); ++r) {
      BatchFactor f = transfer(op, r);
      // Falling back to kMixed also guards every rule: an axis must hold a whole number of batches.
      const Shape& s = shape(op.results[r]);
      if (has_axis(f) &&
          (f.axis >= static_cast<int64_t>(s.size()) || s[static_cast<size_t>(f.axis)] != f.outer * batch_ * f.inner))
        f = mixed();
      if (f.kind == BatchKind::kMixed && is_total(op)) f = {BatchKind::kTotal};
      map_.values[op.results[r].index] = f;
      bool mixes = (f.kind == BatchKind::kMixed && op.kind != OpKind::kExpertOrder) || op.kind == OpKind::kBatchNorm ||
                   gradient_mixes(op);
      if (mixes && (map_.mixers.empty() || map_.mixers.back() != id)) map_.mixers.push_back(id);
    }
  }

  // A sum of what no parameter and no other total enters: one pass over the step's data, before the first forward.
  bool is_total(const ir::Op& op) const {
    return adds_samples(graph_, op, map_) && of_data_[op.results[0].index] &&
           graph_.type(op.results[0]).elements() <= kMostTotals;
  }
  // Made of totals, and of what is the same for every piece, so that it can be made before the first forward.
  bool is_of_totals(const ir::Op& op) const {
    return op.results.size() == 1 && graph_.type(op.results[0]).elements() <= kMostTotals &&
           std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
             return v.valid() && (map_.of(v).kind == BatchKind::kTotal || of_data_[v.index]);
           });
  }

  // Operators of which each result is of one sample, and the gradient of an operand no sum over samples: a row's is
  // divided by how often the whole batch names it.
  static bool gradient_mixes(const ir::Op& op) {
    const auto* embedding = std::get_if<ir::EmbeddingAttrs>(&op.attrs);
    return embedding != nullptr && embedding->scale_grad_by_freq;
  }

  // What has the batch in its shape and is made of what does not: the numbers of the samples, and what is repeated once
  // for each (frontend/slice_of_step). Of what has samples already, a second such axis would mix them.
  bool is_for_samples(const ir::Op& op) {
    const auto* expand = std::get_if<ir::ExpandAttrs>(&op.attrs);
    const bool numbers = op.kind == OpKind::kAdd && graph_.value(op.operands[1]).kind == ir::ValueKind::kSampleOffset;
    if (!numbers && (expand == nullptr || expand->samples < 0)) return false;
    const int64_t axis = numbers ? 0 : expand->samples;
    const int64_t each = shape(op.results[0])[static_cast<size_t>(axis)] / batch_;
    const BatchKind kind = map_.of(op.operands[0]).kind;
    const bool of_samples = kind != BatchKind::kNone && kind != BatchKind::kTotal;
    map_.values[op.results[0].index] = of_samples ? mixed() : BatchFactor{BatchKind::kAxis, axis, 1, each};
    if (of_samples) map_.mixers.push_back(ir::OpId(graph_.value(op.results[0]).producer));
    return true;
  }

  // The op that made v, where it is an expert_order and v its result `first` or a later one.
  const ir::Op* expert_order(ValueId v, uint32_t first) const {
    if (!v.valid() || graph_.value(v).kind != ir::ValueKind::kOpResult || graph_.value(v).result_index < first)
      return nullptr;
    const ir::Op& op = graph_.op(graph_.value(v).producer);
    return op.kind == OpKind::kExpertOrder ? &op : nullptr;
  }
  bool is_count(ValueId v) const { return expert_order(v, 2) != nullptr && map_.of(v).kind == BatchKind::kMixed; }

  // Rows taken into the groups of an expert_order, or back.
  BatchFactor take_rows(const ir::Op& op) const {
    const ir::Op* order = expert_order(op.operands[1], 0);
    if (order == nullptr) return mixed();
    BatchFactor ids = map_.of(order->operands[0]), x = factor(op, 0);
    bool back = op.operands[1] == order->results[1];
    if (ids.kind != BatchKind::kAxis || x.kind == BatchKind::kMixed || (has_axis(x) && x.axis != 0)) return mixed();
    if (back) return x.kind == BatchKind::kAxis ? mixed() : ids;
    x.inner *= std::get<ir::TakeRowsAttrs>(op.attrs).repeat;
    bool fits = is_same(op, 0) || (x.kind == BatchKind::kAxis && x.outer == ids.outer && x.inner == ids.inner);
    return fits ? map_.of(op.operands[1]) : mixed();
  }

  // The factor of result r of an op with at least one operand that has a batch axis.
  BatchFactor transfer(const ir::Op& op, size_t r) const {
    ValueId y = op.results[r];
    BatchFactor x = factor(op, 0);
    for (ValueId operand : op.operands)
      if (is_count(operand) && !reads_counts(op.kind)) return mixed();
    switch (ir::axis_rule(op.kind)) {
      case AxisRule::kReshape: return reshaped(x, shape(op.operands[0]), shape(y));
      case AxisRule::kGather: return gathered(op);
      case AxisRule::kScatter: return scattered(op, shape(y));
      case AxisRule::kIndexSelect: return index_select(op);
      case AxisRule::kCat:
        return x.kind == BatchKind::kAxis && x.axis == std::get<ir::DimAttrs>(op.attrs).dim ? side_by_side(op)
                                                                                            : followed(op, r);
      case AxisRule::kExpertOrder:
        if (r > 1 || x.kind != BatchKind::kAxis) return mixed();
        return {BatchKind::kGrouped, 0, 1, shape(y)[0] / batch_};
      case AxisRule::kTakeRows: return take_rows(op);
      case AxisRule::kGroupedMatmul:
        return x.kind == BatchKind::kGrouped && x.axis == 0 && is_same(op, 1) ? x : mixed();
      case AxisRule::kGroupedExpand:
        if (!is_same(op, 0) || !is_count(op.operands[1])) return mixed();
        return {BatchKind::kGrouped, 0, 1, shape(y)[0] / batch_};
      case AxisRule::kBatchStatistics: return r == 0 && only_first(op) && x.axis == 0 ? x : mixed();
      default: return followed(op, r);
    }
  }

  // As the operator says of its axes.
  BatchFactor followed(const ir::Op& op, size_t r) const {
    const ir::AxisMap axes(graph_, op);
    std::optional<BatchFactor> f;
    for (uint32_t i = 0; i < op.operands.size(); ++i) {
      BatchFactor x = factor(op, i);
      if (!has_axis(x)) continue;
      const ir::OpAxis* axis = axes.of_operand(i, x.axis);
      const ir::AxisPlace* to = axis == nullptr ? nullptr : axis->in_result(static_cast<uint32_t>(r));
      if (to == nullptr || axis->role != ir::AxisRole::kEach) return mixed();
      // With one sample the batch axis, of extent 1, may itself be broadcast.
      if (axis->extent != x.outer * batch_ * x.inner) x.outer = axis->extent;
      x = {x.kind, to->axis, to->factor.outer * x.outer, x.inner * to->factor.inner};
      if (!merge(f, x)) return mixed();
    }
    return f.value_or(mixed());
  }

  bool only_first(const ir::Op& op) const {
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (has_axis(factor(op, i))) return false;
    return true;
  }

  // Takes `next` into the common factor `f`; kNone and kMixed have no axis to disagree about.
  bool merge(std::optional<BatchFactor>& f, const BatchFactor& next) const {
    if (!has_axis(next)) return true;
    if (!f) {
      f = next;
      return true;
    }
    if (f->kind != next.kind) return false;
    if (f->axis == next.axis && f->outer == next.outer && f->inner == next.inner) return true;
    // With one sample every axis can pass for the batch.
    if (batch_ != 1) return false;
    if (next.axis < f->axis) f = next;
    return true;
  }

  // Row-major position of an element = (before * B + sample) * after + rest. The new axis that holds
  // the sample is the one whose own stride divides `after`.
  BatchFactor reshaped(const BatchFactor& x, const Shape& from, const Shape& to) const {
    if (!has_axis(x)) return x;
    size_t axis = static_cast<size_t>(x.axis);
    int64_t after = x.inner * ir::elements_behind(from, axis);
    int64_t before = x.outer * ir::elements(from, 0, axis);
    BatchFactor best = mixed();
    int best_rank = -1;
    for (size_t d = 0; d < to.size(); ++d) {
      const std::optional<ir::AxisFactor> place = ir::factor_in_axis(to, d, batch_, after);
      if (!place || ir::elements(to, 0, d) * place->outer != before) continue;
      if (x.kind == BatchKind::kGrouped && to[d] != from[axis]) continue;  // would put rows of several samples into one
      BatchFactor found{x.kind, static_cast<int64_t>(d), place->outer, place->inner};
      // One sample fits in several places: an axis of its own, else the front of one ([B * S], not [E * B]).
      int rank = place->outer != 1 ? 0 : place->inner != 1 ? 1 : 2;
      if (rank > best_rank) {
        best = found;
        best_rank = rank;
      }
    }
    return best;
  }

  BatchFactor gathered(const ir::Op& op) const {
    std::optional<BatchFactor> f;
    BatchFactor x = factor(op, 0), index = factor(op, 1);
    // What has no samples is read at the index's own place, which is a sample's in the piece, but along `dim`.
    if (!has_axis(x)) return index.axis == std::get<ir::DimAttrs>(op.attrs).dim ? index : mixed();
    if (x.axis == std::get<ir::DimAttrs>(op.attrs).dim || !merge(f, x) || !merge(f, index)) return mixed();
    return *f;
  }

  BatchFactor scattered(const ir::Op& op, const Shape& to) const {
    std::optional<BatchFactor> f;
    for (size_t i = 0; i < 3; ++i)
      if (!has_axis(factor(op, i)) || !merge(f, factor(op, i))) return mixed();
    if (f->axis == std::get<ir::DimAttrs>(op.attrs).dim) return mixed();
    // A smaller index or source than x must still cover the whole batch axis.
    size_t axis = static_cast<size_t>(f->axis);
    bool whole = shape(op.operands[1])[axis] == to[axis];
    return whole ? *f : mixed();
  }

  // Batches one after the other: [2 * B], as in torch.cat([a, b]) of two views of the samples.
  BatchFactor side_by_side(const ir::Op& op) const {
    BatchFactor f = factor(op, 0);
    for (size_t i = 1; i < op.operands.size(); ++i) {
      const BatchFactor next = factor(op, i);
      if (next.kind != f.kind || next.axis != f.axis || next.inner != f.inner) return mixed();
      f.outer += next.outer;
    }
    return f;
  }

  BatchFactor index_select(const ir::Op& op) const {
    int64_t dim = std::get<ir::DimAttrs>(op.attrs).dim;
    BatchFactor x = factor(op, 0), index = factor(op, 1);
    if (has_axis(index)) {
      if (!is_same(op, 0)) return mixed();
      index.axis = dim;
      return index;
    }
    if (index.kind == BatchKind::kMixed) return mixed();
    if (x.axis != dim) return x;
    if (x.kind == BatchKind::kGrouped) return mixed();
    return selected_samples(x, dim, op.operands[1]);
  }

  // A constant index over the batch axis that takes whole samples in their order, each as often.
  BatchFactor selected_samples(const BatchFactor& x, int64_t dim, ValueId index) const {
    const ir::Value& v = graph_.value(index);
    if (v.kind != ir::ValueKind::kConstant) return mixed();
    const ir::ConstantData& data = graph_.constants()[v.payload].source.data;
    if (!data || data->size() != static_cast<size_t>(v.type.bytes())) return mixed();
    size_t count = static_cast<size_t>(v.type.elements());
    std::vector<int64_t> sample(count);
    std::memcpy(sample.data(), data->data(), data->size());
    for (int64_t& s : sample) s = s / x.inner % batch_;
    size_t inner = 0;
    while (inner < count && sample[inner] == 0) ++inner;
    if (inner == 0 || count % (inner * static_cast<size_t>(batch_))) return mixed();
    for (size_t i = 0; i < count; ++i)
      if (sample[i] != static_cast<int64_t>(i / inner % static_cast<size_t>(batch_))) return mixed();
    return {BatchKind::kAxis, dim, static_cast<int64_t>(count / inner) / batch_, static_cast<int64_t>(inner)};
  }

  const ir::Graph& graph_;
  int64_t batch_;
  BatchMap map_;
  std::vector<bool> of_data_;  // [value] made of inputs and what no step changes, by no mixer and of no total
};

}  // namespace

bool adds_samples(const ir::Graph& graph, const ir::Op& op, const BatchMap& batch) {
  return (op.kind == OpKind::kMatmul || op.kind == OpKind::kSum || op.kind == OpKind::kMean) &&
         sums_over_samples(graph, op, batch);
}

bool sums_over_samples(const ir::Graph& graph, const ir::Op& op, const BatchMap& batch) {
  const ir::AxisMap axes(graph, op);
  return std::any_of(axes.axes().begin(), axes.axes().end(), [&](const ir::OpAxis& axis) {
    std::optional<BatchFactor> samples;
    for (const ir::AxisPlace& place : axis.operands) {
      const BatchFactor f = batch.of(op.operands[place.index]);
      if (f.kind == BatchKind::kNone) continue;  // constants: as many rows for each sample
      if (f.kind != BatchKind::kAxis || f.axis != place.axis) return false;
      if (samples && (samples->outer != f.outer || samples->inner != f.inner)) return false;
      samples = f;
    }
    // A mean over rows divides by those that count.
    const bool over_rows = axis.role == ir::AxisRole::kWhole && ir::axis_rule(op.kind) == AxisRule::kRowLoss &&
                           axis.in_operand(1) != nullptr;
    return (axis.role == ir::AxisRole::kSummed || over_rows) && samples.has_value();
  });
}

BatchMap track_batch(const ir::Graph& graph, int64_t local_batch) {
  PIPER_CHECK(local_batch > 0, "local batch ", local_batch);
  return Tracker(graph, local_batch).run();
}

BatchMap track_batch(const ir::ModelVariant& variant) {
  const ir::Graph& graph = variant.chunked.graph;
  if (!variant.like) return track_batch(graph, variant.local_batch);
  const ir::Graph& like = *variant.like;
  PIPER_CHECK(graph.num_ops() == like.num_ops() && graph.inputs().size() == like.inputs().size(), "a graph of ",
              graph.num_ops(), " ops that is like one of ", like.num_ops());
  BatchMap of_like = track_batch(like, variant.like_batch);
  // Values have other ids where a graph has a constant more (frontend/instantiate).
  BatchMap map;
  map.values.resize(graph.num_values());
  map.mixers = std::move(of_like.mixers);
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    map.values[graph.inputs()[i].value.index] = of_like.of(like.inputs()[i].value);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op &op = graph.op(ir::OpId(i)), &other = like.op(ir::OpId(i));
    PIPER_CHECK(op.kind == other.kind && op.results.size() == other.results.size(), "op ", i,
                " is another than that of the graph that its graph is like");
    for (size_t r = 0; r < op.results.size(); ++r) map.values[op.results[r].index] = of_like.of(other.results[r]);
  }
  return map;
}

}  // namespace piper::analysis
