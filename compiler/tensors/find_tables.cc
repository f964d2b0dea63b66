#include "compiler/tensors/find_tables.h"

#include <algorithm>
#include <set>

#include "compiler/ir/axis_map.h"
#include "compiler/tensors/products.h"

namespace piper::tensors {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

// The product whose features a loss takes as its classes, through operators that keep them along one axis; invalid
// where there is none.
OpId product_of_classes(const ir::Graph& graph, const ir::Op& loss) {
  ValueId v = loss.operands[0];
  int64_t axis = 1;
  while (graph.value(v).kind == ir::ValueKind::kOpResult) {
    const OpId id = graph.value(v).producer;
    const ir::Op& op = graph.op(id);
    if (op.kind == OpKind::kLinear) return axis + 1 == static_cast<int64_t>(graph.type(v).shape.size()) ? id : OpId();
    const ir::AxisMap map(graph, op);
    const ir::AxisPlace* from = nullptr;
    for (const ir::OpAxis& along : map.axes()) {
      const ir::AxisPlace* const to = along.in_result(graph.value(v).result_index);
      if (to == nullptr || to->axis != axis || to->factor.outer != 1 || to->factor.inner != 1) continue;
      for (const ir::AxisPlace& place : along.operands)
        if (from == nullptr && !place.repeats && along.role == ir::AxisRole::kEach) from = &place;
    }
    if (from == nullptr) return {};
    axis = from->axis;
    v = op.operands[from->index];
  }
  return {};
}

bool has_own_bias(const ir::Graph& graph, const ir::Uses& uses, const ir::Op& product) {
  return !bias_of(product).valid() || is_parameter_of_one(graph, uses, bias_of(product));
}

}  // namespace

std::vector<Table> find_tables(const ir::Graph& graph, const std::vector<ChunkCut>& chunks,
                               const std::vector<bool>& asked) {
  std::set<OpId> makes_logits;
  const std::vector<bool> of_samples = find_of_samples(graph);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.kind == OpKind::kCrossEntropySum)
      if (const OpId product = product_of_classes(graph, op); product.valid()) makes_logits.insert(product);
  }
  const ir::Uses uses = graph.uses();
  std::vector<Table> tables;
  for (const ir::Parameter& p : graph.parameters()) {
    const std::vector<int64_t>& shape = graph.type(p.value).shape;
    if (shape.size() != 2 || p.shards > 1 || p.cut || p.matrix || p.buffer != plan::ModelBuffer::kNone) continue;
    Table table{p.value, {}, {}, {}};
    int32_t cut = -1;
    bool fits = std::none_of(graph.outputs.begin(), graph.outputs.end(),
                             [&](const ir::Graph::Output& output) { return output.value == p.value; });
    for (const OpId reader : uses[p.value.index]) {
      const ir::Op& op = graph.op(reader);
      const bool looks_up = op.kind == OpKind::kEmbedding && op.operands[0] == p.value &&
                            !std::get<ir::EmbeddingAttrs>(op.attrs).scale_grad_by_freq &&
                            of_samples[op.operands[1].index];
      const bool product = op.kind == OpKind::kLinear && op.operands[1] == p.value && op.operands[0] != p.value &&
                           makes_logits.count(reader) > 0 && has_own_bias(graph, uses, op);
      const int32_t here = chunks[op.chunk.index].cut;
      fits = fits && (looks_up || product) && asked[op.chunk.index] && (cut < 0 || here == cut) &&
             shape[0] >= chunks[op.chunk.index].places;
      if (!fits) break;
      cut = here;
      (looks_up ? table.look_ups : table.products).push_back(reader);
      if (!table.chunk.valid() || op.chunk < table.chunk) table.chunk = op.chunk;
    }
    if (fits && cut >= 0) tables.push_back(std::move(table));
  }
  std::stable_sort(tables.begin(), tables.end(), [](const Table& a, const Table& b) { return a.chunk < b.chunk; });
  return tables;
}

}  // namespace piper::tensors
