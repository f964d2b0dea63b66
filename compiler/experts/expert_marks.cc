// Marks of the operands -> marks of the results, one case for each axis rule of ops.def.
#include "compiler/experts/expert_marks.h"

#include <algorithm>

#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"
#include "compiler/experts/expert_products.h"

namespace piper::experts {
namespace {

using ir::AxisRule;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;
using Kind = ExpertTransfer::Kind;

class Transfer {
 public:
  Transfer(const ExpertRules& rules, const ir::Op& op, const std::vector<const ExpertMark*>& marks)
      : rules_(rules), op_(op), marks_(marks) {}

  ExpertTransfer run() {
    switch (ir::axis_rule(op_.kind)) {
      case AxisRule::kElement: return follow(*marks_[0]);
      case AxisRule::kBroadcast: return elementwise();
      case AxisRule::kReshape: return first(reshaped(*marks_[0], rules_.experts, shape(0), result()));
      case AxisRule::kPermute: return permuted();
      case AxisRule::kExpand: return expanded();
      case AxisRule::kSlice: {
        const auto& a = std::get<ir::SliceAttrs>(op_.attrs);
        return keeps(a.dim) ? follow(*marks_[0]) : ExpertTransfer();
      }
      case AxisRule::kScan: return keeps(std::get<ir::DimAttrs>(op_.attrs).dim) ? follow(*marks_[0]) : ExpertTransfer();
      case AxisRule::kReduce: return reduced();
      case AxisRule::kCat: return joined();
      case AxisRule::kPad: return padded();
      case AxisRule::kRowNorm: return normalised();
      case AxisRule::kMatmul: return transfer_matmul(rules_, op_, marks_);
      case AxisRule::kLinear: return transfer_linear(rules_, op_, marks_);
      // Not met between the products of experts: what they make is not followed, and P0333 names them.
      case AxisRule::kChoose:
      case AxisRule::kTable:
      case AxisRule::kGather:
      case AxisRule::kScatter:
      case AxisRule::kIndexSelect:
      case AxisRule::kIndexAdd:
      case AxisRule::kPerSample:
      case AxisRule::kBatchStatistics:
      case AxisRule::kRotary:
      case AxisRule::kAttention:
      case AxisRule::kDropout:
      case AxisRule::kExpertOrder:
      case AxisRule::kTakeRows:
      case AxisRule::kGroupedMatmul:
      case AxisRule::kGroupedExpand:
      case AxisRule::kRowLoss:
      case AxisRule::kElementLoss:
      case AxisRule::kMixes:
      case AxisRule::kBackward: return {};
    }
    return {};
  }

 private:
  const Shape& shape(size_t i) const { return rules_.graph.type(op_.operands[i]).shape; }
  const Shape& result(size_t r = 0) const { return rules_.graph.type(op_.results[r]).shape; }
  bool keeps(int64_t axis) const { return axis != marks_[0]->expert.axis && axis != marks_[0]->token.axis; }

  ExpertTransfer follow(const ExpertMark& mark) const {
    ExpertTransfer t;
    t.kind = Kind::kFollows;
    t.results.assign(op_.results.size(), mark);
    t.wishes.resize(op_.operands.size());
    return t;
  }
  ExpertTransfer first(const std::optional<ExpertMark>& mark) const { return mark ? follow(*mark) : ExpertTransfer(); }

  ExpertTransfer permuted() const {
    const Shape& dims = std::get<ir::PermuteAttrs>(op_.attrs).dims;
    const auto to = [&](int64_t axis) {
      return axis < 0 ? axis : std::find(dims.begin(), dims.end(), axis) - dims.begin();
    };
    ExpertMark mark = *marks_[0];
    mark.expert.axis = to(mark.expert.axis);
    mark.token.axis = to(mark.token.axis);
    return follow(mark);
  }

  ExpertTransfer expanded() const {
    ExpertMark mark = *marks_[0];
    const int64_t lead = static_cast<int64_t>(result().size() - shape(0).size());
    for (int64_t* axis : {&mark.expert.axis, &mark.token.axis}) {
      if (*axis < 0) continue;
      const int64_t before = shape(0)[static_cast<size_t>(*axis)];
      *axis += lead;
      if (result()[static_cast<size_t>(*axis)] != before) return {};
    }
    return follow(mark);
  }

  // Operands are aligned at the last axis of the result.
  ExpertTransfer elementwise() const {
    const int64_t rank = static_cast<int64_t>(result().size());
    const auto extent = [&](size_t i, int64_t axis) {
      const int64_t own = axis - (rank - static_cast<int64_t>(shape(i).size()));
      return own < 0 ? int64_t{1} : shape(i)[static_cast<size_t>(own)];
    };
    ExpertMark all;
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i] == nullptr) continue;
      ExpertMark mark = *marks_[i];
      const int64_t shift = rank - static_cast<int64_t>(shape(i).size());
      if (mark.expert.present()) mark.expert.axis += shift;
      if (all.expert.present() && all.expert != mark.expert) return {};
      all.expert = mark.expert;
      if (!mark.token.present()) continue;
      mark.token.axis += shift;
      if (all.token.present() && all.token != mark.token) return {};
      if (extent(i, mark.token.axis) != result()[static_cast<size_t>(mark.token.axis)]) return {};
      all.token = mark.token;
    }
    if (!all.token.present()) choose_token(extent, all);
    for (size_t i = 0; i < marks_.size(); ++i)
      if (marks_[i] != nullptr && all.token.present() && !marks_[i]->token.present() && extent(i, all.token.axis) != 1)
        return {};
    ExpertTransfer t = follow(all);
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i] != nullptr) continue;
      const bool by_expert = extent(i, all.expert.axis) != 1;
      const bool by_token = all.token.present() && extent(i, all.token.axis) != 1;
      if (!by_expert && !by_token && rules_.same_for_all[op_.operands[i].index]) continue;
      if (!all.token.present()) return {};
      OperandWish wish;
      wish.shape = Shape(static_cast<size_t>(rank), 1);
      for (int64_t axis = 0; axis < rank; ++axis) wish.shape[static_cast<size_t>(axis)] = extent(i, axis);
      wish.shape[static_cast<size_t>(all.token.axis)] = result()[static_cast<size_t>(all.token.axis)];
      wish.mark.token = all.token;
      if (by_expert) wish.mark.expert = all.expert;
      if (by_token) {  // it has every marked axis itself
        const int64_t shift = rank - static_cast<int64_t>(shape(i).size());
        wish.shape = shape(i);
        wish.mark.token.axis -= shift;
        if (by_expert) wish.mark.expert.axis -= shift;
      }
      t.wishes[i] = std::move(wish);
    }
    return t;
  }
  // The first product or sum of weights with an activation: an axis of the activation that the weights do not have.
  template <class Extent>
  void choose_token(const Extent& extent, ExpertMark& all) const {
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i] != nullptr || rules_.same_for_all[op_.operands[i].index]) continue;
      for (int64_t axis = 0; axis < static_cast<int64_t>(result().size()); ++axis) {
        bool free = axis != all.expert.axis && extent(i, axis) > 1;
        for (size_t k = 0; k < marks_.size(); ++k) free = free && (marks_[k] == nullptr || extent(k, axis) == 1);
        if (!free) continue;
        all.token = {axis, 1, extent(i, axis)};
        return;
      }
    }
  }

  ExpertTransfer reduced() const {
    const auto& a = std::get<ir::ReduceAttrs>(op_.attrs);
    const auto over = [&](int64_t axis) { return std::count(a.dims.begin(), a.dims.end(), axis) > 0; };
    ExpertMark mark = *marks_[0];
    if (mark.token.present() && over(mark.token.axis)) return {};
    const bool sums = over(mark.expert.axis);
    if (sums && (op_.kind != OpKind::kSum || !mark.token.present())) return {};
    if (sums) mark.expert = {};
    if (!a.keepdim)
      for (int64_t* axis : {&mark.expert.axis, &mark.token.axis})
        if (*axis >= 0) *axis -= std::count_if(a.dims.begin(), a.dims.end(), [&](int64_t d) { return d < *axis; });
    ExpertTransfer t = follow(mark);
    if (sums) t.kind = Kind::kSums;
    return t;
  }

  ExpertTransfer joined() const {
    const int64_t dim = std::get<ir::DimAttrs>(op_.attrs).dim;
    const ExpertMark* mark = nullptr;
    for (const ExpertMark* one : marks_) {
      if (one == nullptr) continue;
      if (mark != nullptr && *mark != *one) return {};
      mark = one;
    }
    if (dim == mark->expert.axis || dim == mark->token.axis) return {};
    ExpertTransfer t = follow(*mark);
    for (size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i] != nullptr) continue;
      if (!mark->token.present()) return {};
      t.wishes[i] = OperandWish{*mark, shape(i)};
    }
    return t;
  }

  ExpertTransfer padded() const {
    const auto& a = std::get<ir::PadAttrs>(op_.attrs);
    for (int64_t axis : {marks_[0]->expert.axis, marks_[0]->token.axis})
      if (axis >= 0 && (a.low[static_cast<size_t>(axis)] != 0 || a.high[static_cast<size_t>(axis)] != 0)) return {};
    return follow(*marks_[0]);
  }

  // Rows are normalised one by one; weight and bias are the same for every expert.
  ExpertTransfer normalised() const {
    if (marks_[0] == nullptr) return {};
    for (size_t i = 1; i < marks_.size(); ++i)
      if (marks_[i] != nullptr || (op_.operands[i].valid() && !rules_.same_for_all[op_.operands[i].index])) return {};
    const int64_t lead = static_cast<int64_t>(shape(0).size()) - std::get<ir::LayerNormAttrs>(op_.attrs).axes;
    if (marks_[0]->expert.axis >= lead || marks_[0]->token.axis >= lead) return {};
    ExpertTransfer t = follow(*marks_[0]);
    const Shape rows(shape(0).begin(), shape(0).begin() + lead);
    for (size_t r = 1; r < op_.results.size(); ++r) {
      const auto mark = reshaped(*marks_[0], rules_.experts, rows, result(r));
      if (!mark) return {};
      t.results[r] = *mark;
    }
    return t;
  }

  const ExpertRules& rules_;
  const ir::Op& op_;
  const std::vector<const ExpertMark*>& marks_;
};

}  // namespace

Shape local_shape(Shape shape, const ExpertMark& mark, int64_t devices) {
  if (mark.expert.present()) shape[static_cast<size_t>(mark.expert.axis)] /= devices;
  if (mark.token.present()) shape[static_cast<size_t>(mark.token.axis)] *= devices;
  return shape;
}

// A row-major position is (before x E + expert) x after + rest, and (sources before) x `after` for tokens: `after` says
// where the factor stands, whatever the axes.
std::optional<ExpertMark> reshaped(const ExpertMark& mark, int64_t experts, const Shape& from, const Shape& to) {
  ExpertMark result;
  if (mark.expert.present()) {
    const int64_t after = mark.expert.inner * ir::elements_behind(from, static_cast<size_t>(mark.expert.axis));
    for (size_t d = 0; d < to.size() && !result.expert.present(); ++d)
      if (const auto place = ir::factor_in_axis(to, d, experts, after))
        result.expert = {static_cast<int64_t>(d), place->outer, place->inner};
    if (!result.expert.present()) return std::nullopt;
  }
  if (mark.token.present()) {
    const int64_t after = mark.token.rest * ir::elements_behind(from, static_cast<size_t>(mark.token.axis));
    for (size_t d = 0; d < to.size(); ++d) {
      const auto place = ir::factor_in_axis(to, d, 1, after);
      if (!place) continue;
      // Between two axes either can take the sources; the right one, where they stand before something.
      result.token = {static_cast<int64_t>(d), place->outer, place->inner};
      if (result.token.rest > 1) break;
    }
    if (!result.token.present()) return std::nullopt;
  }
  return result;
}

ExpertTransfer transfer(const ExpertRules& rules, const ir::Op& op, const std::vector<const ExpertMark*>& marks) {
  return Transfer(rules, op, marks).run();
}

}  // namespace piper::experts
