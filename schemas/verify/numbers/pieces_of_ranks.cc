#include "schemas/verify/numbers/pieces_of_ranks.h"

#include <algorithm>

#include "schemas/plan/attrs.h"
#include "schemas/plan/names.h"

namespace piper::verify {

using plan::KernelCall;
using plan::Operand;

namespace {

bool is_by_places(const Row& row) {
  return row.form == RowForm::kElementwise || row.form == RowForm::kLinear || row.form == RowForm::kAdd ||
         row.form == RowForm::kMultiply;
}

void erase(Operand& operand, size_t axis) {
  operand.shape.erase(operand.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  operand.strides.erase(operand.strides.begin() + static_cast<std::ptrdiff_t>(axis));
}

}  // namespace

bool has_pieces_of_ranks(const Spread& spread, Over over) {
  return over == Over::kPiece && spread.sources && spread.order.kind == RowOrder::Kind::kNone;
}

std::string PiecesOfRanks::take(std::vector<View>& views, const std::vector<SpreadView>& experts,
                                const std::vector<SpreadView>& places, int64_t samples, NumberTable& table) {
  own_.clear();
  const auto is_piece = [&](size_t i) {
    return views[i].number >= 0 && has_pieces_of_ranks(experts[i].spread, table[views[i].number].over);
  };
  bool any = false;
  for (size_t i = 0; i < views.size(); ++i) any = any || is_piece(i);
  if (!any) return "";
  for (size_t i = 0; i < views.size(); ++i) {
    View& view = views[i];
    if (view.number < 0 || table[view.number].over == Over::kNothing) continue;
    const auto numbers = std::find_if(view.axes.begin(), view.axes.end(), [](const ViewAxis& a) { return a.samples; });
    const bool of_each = table[view.number].over == Over::kEach && experts[i].spread.sources;
    const auto axis = numbers - view.axes.begin();
    if ((!of_each && !is_piece(i)) || numbers == view.axes.end() || experts[i].sources >= 0 ||
        (of_each && (axis == experts[i].part || axis == places[i].part)))
      return "values of the pieces of several ranks together with others";
    Own own{view.number};
    int64_t bytes = table[view.number].bytes;
    if (of_each) {
      own.samples = *numbers;
      numbers->extent *= samples;
      numbers->stride = std::max<int64_t>(numbers->stride, 1);  // which no row asks for
      bytes *= samples;
    }
    view.number = table.leaf("operand " + std::to_string(i) + " of ranks' pieces " + std::to_string(own.number),
                             Over::kEach, bytes);
    own_[view.number] = own;
  }
  return "";
}

std::string PiecesOfRanks::of_one(KernelCall& call, std::vector<View>& operands, const std::vector<View>& before,
                                  const RowResult& row, int64_t ranks) const {
  const Row* const form = find_row(call.kernel.id());
  if (form == nullptr || call.kernel == Kernel::kDropout || call.outputs.size() != 1 ||
      (row.over != Over::kEach && row.over != Over::kSum))
    return "what " + call.kernel.text() + " makes of the pieces of several ranks";
  Operand& out = call.outputs[0];
  if (out.strides != plan::contiguous_strides(out.shape)) return "pieces of several ranks in another order";
  bool one_each = true;  // the axis has the ranks alone
  int64_t from_end = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    View& view = operands[i];
    const auto own = own_.find(view.number);
    Operand& in = call.inputs[i];
    for (size_t axis = 0; axis < view.axes.size(); ++axis) {
      ViewAxis& at = view.axes[axis];
      if (own != own_.end() && at.samples) {
        in.shape[axis] /= ranks;
        one_each = one_each && at.extent == 1;
        at.samples = false;
        if (own->second.samples.samples) at = own->second.samples;
        from_end = static_cast<int64_t>(view.axes.size() - axis);
      } else if (own == own_.end() && at.extent == 0) {  // the same for all, repeated for each
        const int64_t all = before[i].axes[axis].extent;
        if (all != 1 && all % ranks != 0) return "what is repeated otherwise than for each of several ranks";
        at.extent = in.shape[axis] = all == 1 ? 1 : all / ranks;
      }
    }
    if (own != own_.end()) view.number = own->second.number;
  }
  if (row.over == Over::kSum) return "";
  const auto axis = static_cast<size_t>(row.sample_axis);
  if (axis >= out.shape.size() || out.shape[axis] % ranks != 0) return "a result without the axis of several ranks";
  const std::vector<int64_t> all = out.shape;
  out.shape[axis] /= ranks;
  if (one_each && is_by_places(*form) && from_end > 0) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto here = static_cast<int64_t>(operands[i].axes.size()) - from_end;
      if (operands[i].number < 0 || here < 0) continue;
      if (operands[i].axes[static_cast<size_t>(here)].extent != 1) return "ranks by an axis of their own";
      operands[i].axes.erase(operands[i].axes.begin() + here);
      erase(call.inputs[i], static_cast<size_t>(here));
    }
    erase(out, axis);
  }
  out.strides = plan::contiguous_strides(out.shape);
  for (plan::Attr& attr : call.attrs)
    if (auto* shape = std::get_if<std::vector<int64_t>>(&attr.value); attr.name == "shape" && *shape == all)
      *shape = out.shape;
  return "";
}

}  // namespace piper::verify
