#include "schemas/verify/numbers/part_of_gradient.h"

#include <algorithm>
#include <vector>

#include "schemas/verify/numbers/memory_order.h"

namespace piper::verify {

using plan::Operand;

std::optional<Operand> of_all_places(const NumberedProgram& run, const WholeCall& whole, int64_t ranks, int32_t experts,
                                     const Operand& out, const View& view) {
  const Spread of = run.parts.empty() || out.slot < 0 ? Spread() : run.parts[static_cast<size_t>(out.slot)];
  if (of.part < 1 || of.cut != whole.spread.cut || of.devices != whole.spread.devices || whole.part < 0 ||
      out.offset != 0 || !is_dense(out) || view.axes.size() != out.shape.size() ||
      span_bytes(out) != run.program->slots[static_cast<size_t>(out.slot)].bytes)
    return std::nullopt;
  Operand all = out;
  for (size_t i = 0; i < all.shape.size(); ++i) {
    int64_t &extent = all.shape[i], &stride = all.strides[i];
    if (static_cast<int32_t>(i) == whole.part) {
      if (extent == 1) stride = of.part;
      std::vector<int64_t> pieces;
      for (const int64_t segment : whole.extents) pieces.push_back(segment / of.devices * stride);
      const int64_t all_segments = pieces.empty() ? of.part * whole.segments : of.part;
      if (extent * stride != all_segments || pieces != of.pieces || whole.surplus * stride != of.surplus)
        return std::nullopt;
      extent = extent * of.devices - whole.surplus;
    } else if (extent > 1 && stride % of.part == 0) {
      stride = stride / of.part * of.of_all();
    } else if (extent > 1 && extent * stride > of.part) {
      return std::nullopt;
    }
    if (view.axes[i].extent != extent * (static_cast<int32_t>(i) == experts ? ranks : 1)) return std::nullopt;
  }
  return all;
}

std::optional<std::pair<Operand, View>> alike_at_all_places(const NumberedProgram& run, const Operand& out,
                                                            const View& view) {
  if (run.parts.empty() || out.slot < 0 || view.axes.size() != out.shape.size()) return std::nullopt;
  const Spread& of = run.parts[static_cast<size_t>(out.slot)];
  if (of.cut < 0) return std::nullopt;
  for (size_t axis = 0; axis < view.axes.size(); ++axis) {
    if (view.axes[axis].stride != 0 || out.shape[axis] < 1) continue;
    WholeCall whole;
    whole.spread.cut = of.cut;
    whole.spread.devices = of.devices;
    whole.part = static_cast<int32_t>(axis);
    const int64_t inside = out.shape[axis] == 1 ? of.part : std::max<int64_t>(out.strides[axis], 1);
    for (const int64_t piece : of.pieces) whole.extents.push_back(piece / inside * of.devices);
    whole.segments = of.pieces.empty() ? out.shape[axis] * inside / std::max<int64_t>(of.part, 1) : 1;
    whole.surplus = of.surplus / inside;
    View wide = view;
    wide.axes[axis].extent = out.shape[axis] * of.devices - whole.surplus;
    if (const std::optional<Operand> all = of_all_places(run, whole, 1, -1, out, wide)) return std::pair(*all, wide);
  }
  return std::nullopt;
}

}  // namespace piper::verify
