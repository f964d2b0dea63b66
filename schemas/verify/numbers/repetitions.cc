#include "schemas/verify/numbers/repetitions.h"

#include <algorithm>

#include "schemas/verify/numbers/rows.h"

namespace piper::verify {
namespace {

// Whether each element of the result is made of the elements at its place.
bool by_places(const plan::KernelCall& call) {
  const Row* const row = find_row(call.kernel.id());
  if (row == nullptr || call.kernel == Kernel::kDropout) return false;  // a mask is drawn for each place by itself
  return row->form == RowForm::kElementwise || row->form == RowForm::kLinear || row->form == RowForm::kAdd ||
         row->form == RowForm::kMultiply;
}

// The operand's axis for the result's `axis`; nullptr where it has none, so is the same along it.
ViewAxis* axis_of(View& view, size_t axis, size_t rank, bool from_first) {
  const size_t missing = from_first ? 0 : rank - view.axes.size();
  return axis < missing ? nullptr : &view.axes[axis - missing];
}

}  // namespace

size_t take_repetitions(const plan::KernelCall& call, std::vector<View>& operands) {
  const Row* const row = find_row(call.kernel.id());
  if (call.outputs.size() != 1 || row == nullptr) return 0;
  if (row->form == RowForm::kSumOfRowProducts) {  // of the columns of the first
    ViewAxis& columns = operands[0].axes.back();
    if (columns.samples || columns.extent == 1 || columns.stride != 0) return 0;
    columns = {};
    return 1;
  }
  const bool lookup = call.kernel == Kernel::kEmbedding, product = row->form == RowForm::kRowsByMatrix;
  if (!lookup && !product && !by_places(call)) return 0;
  // A product repeats rows of the first operand alone, a look-up those of the ids.
  const size_t rank = call.outputs[0].shape.size(), first = lookup ? 1 : 0, end = product ? 1 : operands.size();
  const size_t most = lookup ? operands[1].axes.size() : product ? rank - 1 : rank;
  const auto same_along = [&](size_t axis) {
    for (size_t i = first; i < end; ++i) {
      if (operands[i].number < 0) continue;
      const ViewAxis* const of = axis_of(operands[i], axis, rank, lookup);
      if (of != nullptr && (of->samples || (of->extent != 1 && of->stride != 0))) return false;
    }
    return true;
  };
  size_t repeated = 0;
  int64_t places = 1;
  for (; repeated < most && same_along(repeated); ++repeated) places *= call.outputs[0].shape[repeated];
  if (places == 1) return 0;
  for (size_t i = first; i < end; ++i)
    for (size_t axis = 0; axis < repeated && operands[i].number >= 0; ++axis)
      if (ViewAxis* const of = axis_of(operands[i], axis, rank, lookup)) *of = {};
  return repeated;
}

std::vector<bool> take_repeated_axes(const plan::KernelCall& call, int32_t samples, std::vector<View>& operands) {
  const Row* const row = find_row(call.kernel.id());
  const bool product = row != nullptr && row->form == RowForm::kRowsByMatrix;
  if (call.outputs.size() != 1 || (!product && !by_places(call)) || call.kernel == Kernel::kCopy) return {};
  const size_t rank = call.outputs[0].shape.size(), most = product ? rank - 1 : rank;
  const auto end = product ? operands.begin() + 1 : operands.end();  // a product repeats rows of the first alone
  std::vector<bool> repeated(rank);
  bool any = false;
  for (size_t axis = 0; axis < most; ++axis) {
    if (static_cast<int32_t>(axis) == samples || call.outputs[0].shape[axis] == 1) continue;
    repeated[axis] = std::all_of(operands.begin(), end, [&](View& view) {
      const ViewAxis* const of = view.number < 0 ? nullptr : axis_of(view, axis, rank, false);
      return of == nullptr || (!of->samples && (of->extent == 1 || of->stride == 0));
    });
    any = any || repeated[axis];
  }
  if (!any) return {};
  for (auto view = operands.begin(); view != end; ++view)
    for (size_t axis = 0; axis < most && view->number >= 0; ++axis)
      if (ViewAxis* const of = repeated[axis] ? axis_of(*view, axis, rank, false) : nullptr) *of = {};
  return repeated;
}

}  // namespace piper::verify
