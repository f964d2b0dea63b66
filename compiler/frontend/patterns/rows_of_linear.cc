#include "compiler/frontend/patterns/rows_of_linear.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/ir/shapes.h"

namespace piper::frontend {
namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

void set_shape(ir::Graph& graph, OpId reshape, const Shape& shape) {
  graph.op(reshape).attrs = ir::ReshapeAttrs{shape};
  graph.value(graph.op(reshape).results[0]).type.shape = shape;
}

}  // namespace

ir::Graph keep_axes_of_rows(ir::Graph graph) {
  const ir::Uses uses = graph.uses();
  const auto is_read_once = [&](ValueId v) {
    const auto is_v = [&](const ir::Graph::Output& output) { return output.value == v; };
    return uses[v.index].size() == 1 && std::none_of(graph.outputs.begin(), graph.outputs.end(), is_v);
  };
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& after = graph.op(OpId(i));
    if (after.kind != OpKind::kReshape) continue;
    const Op* linear = graph.made_by(after.operands[0], OpKind::kLinear);
    if (linear == nullptr || !is_read_once(linear->results[0])) continue;
    const ValueId rows = linear->operands[0], y = linear->results[0];
    const Op* before = graph.made_by(rows, OpKind::kReshape);
    if (before == nullptr || !is_read_once(rows)) continue;
    const Shape& x = graph.type(before->operands[0]).shape;
    Shape kept = graph.type(after.results[0]).shape;
    if (graph.type(rows).shape.size() != 2 || kept.size() < 3 || x.size() < kept.size() ||
        kept.back() != graph.type(y).shape.back() || !std::equal(kept.begin(), kept.end() - 1, x.begin()))
      continue;
    graph.value(y).type.shape = kept;
    kept.back() = graph.type(rows).shape.back();
    set_shape(graph, graph.value(rows).producer, kept);
  }
  return graph;
}

}  // namespace piper::frontend
