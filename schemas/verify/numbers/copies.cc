#include "schemas/verify/numbers/copies.h"

#include <utility>
#include <vector>

#include "schemas/plan/dtype.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {
namespace {

// One copy; false where the maps cannot be put together.
bool through_copy(View& view, const Number& copy, const NumberTable& table) {
  const View& source = copy.operands[0];
  // For what is separate for each sample elements are counted within one.
  if (source.dtype != view.dtype || (copy.over == Over::kEach) != (table[source.number].over == Over::kEach))
    return false;
  // The copy's own elements of one sample, row by row: of the axis that numbers the samples, a sample's rows.
  std::vector<MappedAxis> axes;
  int64_t next = 1;
  for (size_t axis = source.axes.size(); axis-- > 0;) {
    const ViewAxis& a = source.axes[axis];
    if (a.extent == 0) return false;
    axes.insert(axes.begin(), {a.extent, next, a.stride});
    next *= a.extent;
  }
  StridedElements inner{view.offset, {}, {}};
  for (const ViewAxis& axis : view.axes) {
    inner.shape.push_back(axis.extent);
    inner.strides.push_back(axis.stride);
  }
  const auto there = mapped(inner, axes);
  if (!there) return false;
  view.number = source.number;
  view.offset = source.offset + there->offset;
  for (size_t axis = 0; axis < view.axes.size(); ++axis) view.axes[axis].stride = there->strides[axis];
  return true;
}

}  // namespace

void through_copies(View& view, const NumberTable& table) {
  while (table[view.number].by == Kernel::kCopy && through_copy(view, table[view.number], table)) {
  }
}

int32_t copy_of(View view, NumberTable& table) {
  if (is_whole(view, table)) return view.number;
  NumberTable::Made made;
  made.by = Kernel::kCopy;
  made.what = "of a view";
  made.over = table[view.number].over;
  made.bytes = dtype_bytes(view.dtype);
  for (const ViewAxis& axis : view.axes) made.bytes *= axis.extent;
  made.operands = {std::move(view)};
  return table.result(std::move(made));
}

}  // namespace piper::verify
