// Marks of the operands -> marks of the results.
#include "compiler/experts/expert_marks.h"

#include <algorithm>

#include "compiler/ir/axis_map.h"
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
      case AxisRule::kBroadcast: return elementwise();
      case AxisRule::kReshape: {
        const auto mark = reshaped(*marks_[0], rules_.experts, shape(0), result());
        return mark ? follow(*mark) : ExpertTransfer();
      }
      case AxisRule::kReduce: return reduced();
      case AxisRule::kCat: return joined();
      case AxisRule::kMatmul: return transfer_matmul(rules_, op_, marks_);
      case AxisRule::kLinear: return transfer_linear(rules_, op_, marks_);
      case AxisRule::kElement:
      case AxisRule::kPermute:
      case AxisRule::kExpand:
      case AxisRule::kSlice:
      case AxisRule::kScan:
      case AxisRule::kPad:
      case AxisRule::kRowNorm: return moved();
      // Not met between the products of experts: what they make is not followed, and P0333 names them.
      default: return {};
    }
  }

 private:
  const Shape& shape(size_t i) const { return rules_.graph.type(op_.operands[i]).shape; }
  const Shape& result(size_t r = 0) const { return rules_.graph.type(op_.results[r]).shape; }
  ExpertTransfer follow(const ExpertMark& mark) const {
    ExpertTransfer t;
    t.kind = Kind::kFollows;
    t.results.assign(op_.results.size(), mark);
    t.wishes.resize(op_.operands.size());
    return t;
  }

  // Operand 0 alone has marks, and each of its marked axes is one of the results; the others are the same for all.
  ExpertTransfer moved() const {
    if (marks_[0] == nullptr) return {};
    for (size_t i = 1; i < marks_.size(); ++i)
      if (marks_[i] != nullptr || (op_.operands[i].valid() && !rules_.same_for_all[op_.operands[i].index])) return {};
    const ir::AxisMap axes(rules_.graph, op_);
    ExpertTransfer t = follow(*marks_[0]);
    for (uint32_t r = 0; r < t.results.size(); ++r) {
      ExpertMark& mark = t.results[r];
      if (!move(axes, r, mark.expert.axis, mark.expert.outer, mark.expert.inner)) return {};
      if (!move(axes, r, mark.token.axis, mark.token.outer, mark.token.rest)) return {};
    }
    return t;
  }
  static bool move(const ir::AxisMap& axes, uint32_t result, int64_t& at, int64_t& outer, int64_t& inner) {
    if (at < 0) return true;
    const ir::OpAxis* axis = axes.of_operand(0, at);
    const ir::AxisPlace* place = axis == nullptr ? nullptr : axis->in_result(result);
    if (place == nullptr || axis->role != ir::AxisRole::kEach || axis->operands[0].repeats) return false;
    at = place->axis;
    outer *= place->factor.outer;
    inner *= place->factor.inner;
    return true;
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
// where the factor is, whatever the axes.
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
      // Between two axes either can take the sources; the right one, where they are before something.
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
