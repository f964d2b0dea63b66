#include "compiler/ir/axis_map.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/op_traits.h"

namespace piper::ir {

class AxisMap::Maker {
 public:
  Maker(const Graph& graph, const Op& op, std::vector<OpAxis>& axes) : graph_(graph), op_(op), axes_(axes) {}

  void run() {
    axes_.reserve(4);
    switch (axis_rule(op_.kind)) {
      case AxisRule::kElement:
      case AxisRule::kDropout: return same_axes({0}, {0}, {});
      case AxisRule::kBroadcast:
      case AxisRule::kExpand: return broadcast(op_.operands.size(), rank_of_result());
      case AxisRule::kReshape: return reshape();
      case AxisRule::kPermute: return permute();
      case AxisRule::kSlice: {
        const auto& a = std::get<SliceAttrs>(op_.attrs);
        const bool all = a.step == 1 && result(0)[static_cast<size_t>(a.dim)] == operand(0)[static_cast<size_t>(a.dim)];
        return same_axes({0}, {0}, all ? Shape() : Shape{a.dim});
      }
      case AxisRule::kReduce: return reduce();
      case AxisRule::kScan: return same_axes({0}, {0}, {std::get<DimAttrs>(op_.attrs).dim});
      case AxisRule::kChoose: return same_axes({0}, all_results(), {std::get<TopkAttrs>(op_.attrs).dim});
      case AxisRule::kTable: return table();
      case AxisRule::kGather: return gather();
      case AxisRule::kScatter: return same_axes({0, 1, 2}, {0}, {std::get<DimAttrs>(op_.attrs).dim});
      case AxisRule::kIndexSelect: return index_select();
      case AxisRule::kIndexAdd: return same_axes({0, 2}, {0}, {std::get<DimAttrs>(op_.attrs).dim});
      case AxisRule::kCat: return same_axes(all_operands(), {0}, {std::get<DimAttrs>(op_.attrs).dim});
      case AxisRule::kPad: return pad();
      case AxisRule::kMatmul: return matmul();
      case AxisRule::kLinear: return linear();
      case AxisRule::kMatrices: return matrices();
      case AxisRule::kPerSample: return per_sample();
      case AxisRule::kRowNorm: return row_norm();
      case AxisRule::kRotary:
        broadcast(op_.operands.size(), rank_of_result() - 1);
        return aligned(AxisRole::kWhole, op_.operands.size(), rank_of_result() - 1);
      case AxisRule::kAttention: return attention();
      case AxisRule::kRowLoss: return row_loss();
      case AxisRule::kElementLoss: return element_loss();
      case AxisRule::kTakeRows:
      case AxisRule::kGroupedExpand: return features();
      case AxisRule::kGroupedMatmul: return grouped_matmul();
      // Statistics are of all samples; which rows are whose is known at run time.
      case AxisRule::kBatchStatistics:
      case AxisRule::kExpertOrder:
      case AxisRule::kMixes:
      case AxisRule::kBackward: return;
    }
  }

 private:
  const Shape& operand(size_t i) const { return graph_.type(op_.operands[i]).shape; }
  const Shape& result(size_t r) const { return graph_.type(op_.results[r]).shape; }
  bool has_operand(size_t i) const { return i < op_.operands.size() && op_.operands[i].valid(); }
  int64_t rank(size_t i) const { return static_cast<int64_t>(operand(i).size()); }
  int64_t rank_of_result() const { return static_cast<int64_t>(result(0).size()); }
  int64_t extent(size_t i, int64_t axis) const { return operand(i)[static_cast<size_t>(axis)]; }
  std::vector<uint32_t> all_operands() const { return numbers(op_.operands.size()); }
  std::vector<uint32_t> all_results() const { return numbers(op_.results.size()); }
  static std::vector<uint32_t> numbers(size_t count) {
    std::vector<uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  OpAxis& add(AxisRole role, int64_t extent) {
    axes_.push_back({role, extent, {}, {}});
    return axes_.back();
  }
  // The axis that is axis `axis` of operand i.
  OpAxis& add_of(AxisRole role, uint32_t i, int64_t axis) {
    OpAxis& made = add(role, extent(i, axis));
    made.operands.push_back({i, axis, {}});
    return made;
  }

  // Operands and results have the same axes. Those of `whole`, and those along which extents differ, need all.
  void same_axes(const std::vector<uint32_t>& operands, const std::vector<uint32_t>& results, const Shape& whole) {
    for (int64_t d = 0; d < rank(operands[0]); ++d) {
      OpAxis& axis = add(AxisRole::kEach, extent(operands[0], d));
      for (const uint32_t i : operands) axis.operands.push_back({i, d, {}});
      for (const uint32_t r : results) axis.results.push_back({r, d, {}});
      const auto differs = [&](const Shape& shape) { return shape[static_cast<size_t>(d)] != axis.extent; };
      bool all = std::count(whole.begin(), whole.end(), d) > 0;
      for (const uint32_t i : operands) all = all || differs(operand(i));
      for (const uint32_t r : results) all = all || differs(result(r));
      if (all) axis.role = AxisRole::kWhole;
    }
  }

  // The first `count` operands are aligned at the last axis of the result. Its first `axes` axes.
  void broadcast(size_t count, int64_t axes) {
    for (int64_t d = 0; d < axes; ++d) aligned(AxisRole::kEach, count, d);
  }
  void aligned(AxisRole role, size_t count, int64_t d) {
    OpAxis& axis = add(role, result(0)[static_cast<size_t>(d)]);
    for (uint32_t i = 0; i < count; ++i) {
      if (!has_operand(i)) continue;
      if (const int64_t own = d - (rank_of_result() - rank(i)); own >= 0)
        axis.operands.push_back({i, own, {}, extent(i, own) != axis.extent});
    }
    axis.results.push_back({0, d, {}});
  }

  // The steps of both shapes, from the last axis, cut both into the same factors, as far as they nest.
  void reshape() {
    const Shape &from = operand(0), &to = result(0);
    if (elements(from) == 0) return;
    const auto steps_of = [](const Shape& shape) {
      Shape steps{1};
      for (size_t d = shape.size(); d-- > 0;) steps.push_back(steps.back() * shape[d]);
      return steps;
    };
    Shape steps = steps_of(from);
    for (const int64_t step : steps_of(to)) steps.push_back(step);
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      if (steps[i + 1] % steps[i] != 0) continue;
      const int64_t extent = steps[i + 1] / steps[i];
      const auto place = [&](const Shape& shape, std::vector<AxisPlace>& places) {
        for (size_t d = 0; d < shape.size(); ++d)
          if (shape[d] > 1)
            if (const auto factor = factor_in_axis(shape, d, extent, steps[i]))
              return places.push_back({0, static_cast<int64_t>(d), *factor});
      };
      OpAxis axis{AxisRole::kEach, extent, {}, {}};
      place(from, axis.operands);
      place(to, axis.results);
      if (!axis.operands.empty() && !axis.results.empty()) axes_.push_back(std::move(axis));
    }
  }

  void permute() {
    const Shape& dims = std::get<PermuteAttrs>(op_.attrs).dims;
    for (size_t d = 0; d < dims.size(); ++d)
      add_of(AxisRole::kEach, 0, dims[d]).results.push_back({0, static_cast<int64_t>(d), {}});
  }

  void reduce() {
    const auto& a = std::get<ReduceAttrs>(op_.attrs);
    int64_t kept = 0;
    for (int64_t d = 0; d < rank(0); ++d) {
      if (std::count(a.dims.begin(), a.dims.end(), d) > 0) {
        add_of(op_.kind == OpKind::kAmax ? AxisRole::kWhole : AxisRole::kSummed, 0, d);
        kept += a.keepdim ? 1 : 0;
      } else {
        add_of(AxisRole::kEach, 0, d).results.push_back({0, kept++, {}});
      }
    }
  }

  void table() {
    for (int64_t d = 0; d < rank(1); ++d) add_of(AxisRole::kEach, 1, d).results.push_back({0, d, {}});
    add_of(AxisRole::kChosen, 0, 0);
    for (int64_t d = 1; d < rank(0); ++d) add_of(AxisRole::kEach, 0, d).results.push_back({0, rank(1) + d - 1, {}});
  }

  void gather() {
    const int64_t dim = std::get<DimAttrs>(op_.attrs).dim;
    for (int64_t d = 0; d < rank(0); ++d) {
      if (d == dim) {
        add_of(AxisRole::kChosen, 0, d);
        add_of(AxisRole::kEach, 1, d).results.push_back({0, d, {}});
        continue;
      }
      OpAxis& axis = add_of(extent(0, d) == extent(1, d) ? AxisRole::kEach : AxisRole::kWhole, 0, d);
      axis.operands.push_back({1, d, {}});
      axis.results.push_back({0, d, {}});
    }
  }

  void index_select() {
    const int64_t dim = std::get<DimAttrs>(op_.attrs).dim;
    add_of(AxisRole::kChosen, 0, dim);
    add_of(AxisRole::kEach, 1, 0).results.push_back({0, dim, {}});
    for (int64_t d = 0; d < rank(0); ++d)
      if (d != dim) add_of(AxisRole::kEach, 0, d).results.push_back({0, d, {}});
  }

  void pad() {
    const auto& a = std::get<PadAttrs>(op_.attrs);
    Shape padded;
    for (size_t d = 0; d < a.low.size(); ++d)
      if (a.low[d] != 0 || a.high[d] != 0) padded.push_back(static_cast<int64_t>(d));
    same_axes({0}, {0}, padded);
  }

  void matmul() {
    broadcast(2, rank_of_result() - 2);
    add_of(AxisRole::kEach, 0, rank(0) - 2).results.push_back({0, rank_of_result() - 2, {}});
    add_of(AxisRole::kEach, 1, rank(1) - 1).results.push_back({0, rank_of_result() - 1, {}});
    add_of(AxisRole::kSummed, 0, rank(0) - 1).operands.push_back({1, rank(1) - 2, {}});
  }

  // Every result has the leading axes first.
  void matrices() {
    int64_t lead = 0;
    for (const uint32_t i : all_operands()) lead = std::max(lead, rank(i) - 2);
    for (int64_t d = 0; d < lead; ++d) {
      OpAxis& axis = add(AxisRole::kEach, result(0)[static_cast<size_t>(d)]);
      for (const uint32_t i : all_operands())
        if (const int64_t own = d - (lead - (rank(i) - 2)); own >= 0)
          axis.operands.push_back({i, own, {}, extent(i, own) != axis.extent});
      for (const uint32_t r : all_results()) axis.results.push_back({r, d, {}});
    }
    const bool solves = op_.kind == OpKind::kSolve || op_.kind == OpKind::kTriangularSolve;
    for (const uint32_t i : all_operands()) {
      add_of(AxisRole::kWhole, i, rank(i) - 2);
      OpAxis& last = add_of(solves && i == 1 ? AxisRole::kEach : AxisRole::kWhole, i, rank(i) - 1);
      if (last.role == AxisRole::kEach) last.results.push_back({0, rank_of_result() - 1, {}});
    }
  }

  void linear() {
    const int64_t last = rank(0) - 1;
    for (int64_t d = 0; d < last; ++d) add_of(AxisRole::kEach, 0, d).results.push_back({0, d, {}});
    OpAxis& out = add_of(AxisRole::kEach, 1, 0);
    if (has_operand(2)) out.operands.push_back({2, 0, {}});
    out.results.push_back({0, last, {}});
    // Each part would add the bias.
    add_of(has_operand(2) ? AxisRole::kWhole : AxisRole::kSummed, 0, last).operands.push_back({1, 1, {}});
  }

  // For rows of which it is known at run time whose they are, what each has of its own.
  void features() {
    for (int64_t d = 1; d < rank(0); ++d) add_of(AxisRole::kEach, 0, d).results.push_back({0, d, {}});
  }
  void grouped_matmul() {
    const bool transposed = std::get<GroupedMatmulAttrs>(op_.attrs).transposed;
    add_of(AxisRole::kEach, 1, transposed ? 1 : 2).results.push_back({0, 1, {}});
    add_of(AxisRole::kSummed, 0, 1).operands.push_back({1, transposed ? 2 : 1, {}});
  }

  void per_sample() {
    OpAxis& axis = add_of(AxisRole::kEach, 0, 0);
    for (const uint32_t r : all_results()) axis.results.push_back({r, 0, {}});
  }

  // Statistics are [rows], the leading axes of operand 0 in one.
  void row_norm() {
    const int64_t lead = rank(0) - std::get<LayerNormAttrs>(op_.attrs).axes;
    const Shape rows(operand(0).begin(), operand(0).begin() + lead);
    for (int64_t d = 0; d < rank(0); ++d) {
      OpAxis& axis = add_of(d < lead ? AxisRole::kEach : AxisRole::kWhole, 0, d);
      axis.results.push_back({0, d, {}});
      const auto at = static_cast<size_t>(d);
      for (uint32_t r = 1; d < lead && r < op_.results.size(); ++r)
        axis.results.push_back({r, 0, {elements_before(rows, at), elements_behind(rows, at)}});
    }
  }

  // q [B, H, S, D], k, v [B, H or a divisor of it, T, D], mask [B, H, S, T], sink [B, H, S, 1] -> y, lse [B, H, S].
  void attention() {
    const auto& a = std::get<SdpaAttrs>(op_.attrs);
    const bool reads_vectors = !a.attends.empty();
    const auto with_mask = [&](OpAxis& axis, int64_t d) {
      if (!has_operand(3) || (reads_vectors && d > 0)) return;
      if (const int64_t own = d - (4 - rank(3)); own >= 0)
        axis.operands.push_back({3, own, {}, extent(3, own) != axis.extent});
    };
    const auto with_results = [&](OpAxis& axis, int64_t d) {
      if (has_operand(4)) axis.operands.push_back({4, d, {}});
      for (const uint32_t r : all_results()) axis.results.push_back({r, d, {}});
    };
    for (int64_t d = 0; d < 3; ++d) {
      if (d == 1 && extent(1, 1) != extent(0, 1)) {
        shared_heads(reads_vectors);
        continue;
      }
      // Where a query is says to which keys it attends.
      const bool by_place = d == 2 && (a.is_causal || reads_vectors);
      OpAxis& axis = add_of(by_place ? AxisRole::kWhole : AxisRole::kEach, 0, d);
      if (d < 2) axis.operands.insert(axis.operands.end(), {{1, d, {}}, {2, d, {}}});
      with_mask(axis, d);
      with_results(axis, d);
    }
    OpAxis& keys = add_of(AxisRole::kWhole, 1, 2);
    keys.operands.push_back({2, 2, {}});
    with_mask(keys, 3);
    // Kernels compute with one width of q, k and v.
    OpAxis& width = add_of(AxisRole::kWhole, 0, 3);
    width.operands.insert(width.operands.end(), {{1, 3, {}}, {2, 3, {}}});
    width.results.push_back({0, 3, {}});
  }

  // Several heads of queries, one after the other, read one head of keys: heads of keys are one axis, the queries of
  // one another, which parts would have to keep in step with the first.
  void shared_heads(bool reads_vectors) {
    const int64_t heads = extent(1, 1), each = extent(0, 1) / heads;
    const AxisFactor outer{1, each}, inner{heads, 1};
    OpAxis& keys = add(AxisRole::kEach, heads);
    keys.operands = {{0, 1, outer}, {1, 1, {}}, {2, 1, {}}};
    if (has_operand(4)) keys.operands.push_back({4, 1, outer});
    if (const int64_t own = has_operand(3) && !reads_vectors ? rank(3) - 3 : -1; own >= 0) {
      const bool repeats = extent(3, own) != extent(0, 1);
      keys.operands.push_back({3, own, repeats ? AxisFactor{} : outer, repeats});
    }
    OpAxis& queries = add(AxisRole::kWhole, each);
    queries.operands = {{0, 1, inner}};
    for (const uint32_t r : all_results()) {
      axes_[axes_.size() - 2].results.push_back({r, 1, outer});
      queries.results.push_back({r, 1, inner});
    }
  }

  // A number for each row of the targets, or one: a sum where the reduction says so.
  void row_loss() {
    const auto& a = std::get<CrossEntropyLossAttrs>(op_.attrs);
    const AxisRole rows = a.reduction == "none"  ? AxisRole::kEach
                          : a.reduction == "sum" ? AxisRole::kSummed
                                                 : AxisRole::kWhole;  // a mean divides by what counts
    for (int64_t d = 0; d < rank(1); ++d) {
      OpAxis& axis = add_of(rows, 1, d);
      axis.operands.push_back({0, d == 0 ? 0 : d + 1, {}});
      if (rows == AxisRole::kEach) axis.results.push_back({0, d, {}});
    }
    add_of(AxisRole::kWhole, 0, 1);
  }

  void element_loss() {
    const bool each = std::get<ReductionAttrs>(op_.attrs).reduction == "none";
    for (int64_t d = 0; d < rank(0); ++d) {
      OpAxis& axis = add_of(each ? AxisRole::kEach : AxisRole::kSummed, 0, d);
      axis.operands.push_back({1, d, {}});
      if (each) axis.results.push_back({0, d, {}});
    }
  }

  const Graph& graph_;
  const Op& op_;
  std::vector<OpAxis>& axes_;
};

const AxisPlace* OpAxis::in_operand(uint32_t operand) const {
  const auto found =
      std::find_if(operands.begin(), operands.end(), [&](const AxisPlace& place) { return place.index == operand; });
  return found == operands.end() ? nullptr : &*found;
}

const AxisPlace* OpAxis::in_result(uint32_t result) const {
  const auto found =
      std::find_if(results.begin(), results.end(), [&](const AxisPlace& place) { return place.index == result; });
  return found == results.end() ? nullptr : &*found;
}

AxisMap::AxisMap(const Graph& graph, const Op& op) { Maker(graph, op, axes_).run(); }

const OpAxis* AxisMap::of_operand(uint32_t operand, int64_t axis) const& {
  for (const OpAxis& one : axes_)
    for (const AxisPlace& place : one.operands)
      if (place.index == operand && place.axis == axis && place.factor.outer == 1 && place.factor.inner == 1)
        return &one;
  return nullptr;
}

}  // namespace piper::ir
