#include "compiler/autodiff/find_splits.h"

#include <algorithm>

#include "compiler/autodiff/autodiff.h"

namespace piper::autodiff {

namespace {

const ir::SliceAttrs& slice_of(const ir::Graph& graph, ir::OpId id) {
  return std::get<ir::SliceAttrs>(graph.op(id).attrs);
}

// The slices sorted by start where they cover the axis once; an empty split otherwise.
Split as_split(const ir::Graph& graph, ir::ValueId value, std::vector<ir::OpId> parts) {
  // Chunks that read parts of a parameter have no chunk in common; its gradient is made in one way, however many do.
  if (parts.size() < 2 || graph.value(value).kind != ir::ValueKind::kOpResult) return {};
  Split split{slice_of(graph, parts[0]).dim, parts, *std::min_element(parts.begin(), parts.end()), {}};
  split.chunk = graph.op(split.first).chunk;
  std::sort(split.parts.begin(), split.parts.end(),
            [&](ir::OpId a, ir::OpId b) { return slice_of(graph, a).start < slice_of(graph, b).start; });
  int64_t covered = 0;
  for (ir::OpId part : split.parts) {
    const ir::SliceAttrs& slice = slice_of(graph, part);
    if (slice.dim != split.dim || slice.step != 1 || slice.start != covered || slice.end <= covered) return {};
    if (graph.op(part).chunk != split.chunk) split.chunk = graph.op(graph.value(value).producer).chunk;
    covered = slice.end;
  }
  if (covered != graph.type(value).shape[static_cast<size_t>(split.dim)]) return {};
  return split;
}

}  // namespace

std::vector<Split> find_splits(const ir::Graph& graph) {
  std::vector<std::vector<ir::OpId>> slices(graph.num_values());
  std::vector<bool> other_use(graph.num_values(), false);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.phase != ir::Phase::kForward || !passes_gradient(op.kind)) continue;
    for (ir::ValueId operand : op.operands) {
      if (!operand.valid()) continue;
      if (op.kind == ir::OpKind::kSlice) slices[operand.index].push_back(ir::OpId(i));
      else other_use[operand.index] = true;
    }
  }
  for (ir::ValueId loss : graph.all_losses()) other_use[loss.index] = true;
  std::vector<Split> splits(graph.num_values());
  for (size_t v = 0; v < splits.size(); ++v)
    if (!other_use[v]) splits[v] = as_split(graph, ir::ValueId(v), std::move(slices[v]));
  return splits;
}

}  // namespace piper::autodiff
