#include "schemas/verify/numbers/bias.h"

#include <algorithm>
#include <utility>

#include "schemas/plan/names.h"

namespace piper::verify {
namespace {

// All elements of a product, in the order in which it made them of the rows of its first operand. Samples may be along
// any axis of these.
bool is_as_made(const View& view, const View& rows, const Number& product) {
  if (view.offset != 0 || view.axes.size() != rows.axes.size()) return false;
  int64_t next = 1;
  for (size_t axis = view.axes.size(); axis-- > 0;) {
    const ViewAxis &a = view.axes[axis], &row = rows.axes[axis];
    const bool last = axis + 1 == view.axes.size();
    if (a.samples != row.samples || (!last && a.extent != row.extent) || (a.extent != 1 && a.stride != next))
      return false;
    next *= a.extent;
  }
  return next * dtype_bytes(view.dtype) == product.bytes;
}

bool is_product(const View& view, const NumberTable& table) {
  if (view.number < 0 || table[view.number].by != Maker(Kernel::kLinear)) return false;
  const std::vector<View>& operands = table[view.number].operands;
  return operands.size() == 3 && operands[2].number < 0 && is_as_made(view, operands[0], table[view.number]);
}

// One element after the other along the last axis, the same for each row.
bool is_bias(const View& view, int64_t columns, const NumberTable& table) {
  if (view.number < 0 || table[view.number].over != Over::kNothing || view.axes.empty()) return false;
  const bool repeated =
      std::all_of(view.axes.begin(), view.axes.end() - 1, [](const ViewAxis& axis) { return axis.stride == 0; });
  return repeated && view.axes.back().extent == columns && (columns == 1 || view.axes.back().stride == 1);
}

}  // namespace

std::optional<ProductWithBias> product_with_bias(const plan::KernelCall& call, const std::vector<View>& operands,
                                                 const NumberTable& table) {
  if (call.kernel != Kernel::kAdd || call.accumulate || operands.size() != 2 || call.outputs[0].shape.empty())
    return std::nullopt;
  const size_t product = is_product(operands[0], table) ? 0 : 1;
  const View& bias = operands[1 - product];
  const int64_t columns = call.outputs[0].shape.back();
  if (!is_product(operands[product], table) || !is_bias(bias, columns, table)) return std::nullopt;
  ProductWithBias made{{}, table[operands[product].number].operands};
  made.call.kernel = Kernel::kLinear;
  made.call.outputs = call.outputs;
  // Their extents alone are looked at, and those are the views'.
  made.call.inputs.resize(made.operands.size());
  View& added = made.operands[2];
  added = bias;
  added.axes = {bias.axes.back()};
  return made;
}

}  // namespace piper::verify
