#include "compiler/passes/recompute.h"

#include <algorithm>

#include "compiler/analysis/repeatable_ops.h"
#include "compiler/ir/op_traits.h"

namespace piper::passes {
namespace {

using ir::OpId;
using ir::Phase;
using ir::ValueId;
using ir::ValueKind;

bool changes_state(const ir::Graph& graph, const ir::Op& op) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId v) { return v.valid() && graph.value(v).kind == ValueKind::kBuffer; });
}

// `chunks`: [chunk], the ones to repeat.
void recompute(ir::Graph& graph, const std::vector<bool>& chunks, const analysis::RepeatableOps& repeated) {
  if (std::none_of(chunks.begin(), chunks.end(), [](bool chosen) { return chosen; })) return;
  const size_t num_ops = graph.num_ops();
  // Forward ops whose results a backward of their own chunk needs, directly or through others that are repeated.
  std::vector<bool> needed(num_ops, false);
  auto repeatable = [&](ValueId v, ir::ChunkId chunk) {
    if (!v.valid() || graph.value(v).kind != ValueKind::kOpResult) return false;
    const ir::Op& producer = graph.op(graph.value(v).producer);
    return producer.phase == Phase::kForward && producer.chunk == chunk && !ir::is_conversion(producer.kind) &&
           repeated.has(graph, producer) && !changes_state(graph, producer);
  };
  for (size_t i = num_ops; i-- > 0;) {
    const ir::Op& op = graph.op(OpId(i));
    if (!op.chunk.valid() || !chunks[op.chunk.index]) continue;
    if (op.phase != Phase::kBackward && !needed[i]) continue;
    for (ValueId v : op.operands)
      if (repeatable(v, op.chunk)) needed[graph.value(v).producer.index] = true;
  }
  std::vector<ValueId> again(graph.num_values());
  for (size_t i = 0; i < num_ops; ++i) {
    if (!needed[i]) continue;
    const ir::Op op = graph.op(OpId(i));  // a copy: appending moves the list
    std::vector<ValueId> operands = op.operands;
    for (ValueId& v : operands)  // what another chunk made is kept, though that chunk may repeat it for itself
      if (v.valid() && again[v.index].valid() && graph.op(graph.value(v).producer).chunk == op.chunk)
        v = again[v.index];
    std::vector<ir::TensorType> types;
    for (ValueId result : op.results) types.push_back(graph.type(result));
    const OpId copy = graph.append(op.kind, op.attrs, std::move(operands), std::move(types), op.scope,
                                   graph.provenance().derived("recompute", {op.prov}));
    graph.op(copy).phase = Phase::kBackward;
    graph.op(copy).chunk = op.chunk;
    for (size_t r = 0; r < op.results.size(); ++r) again[op.results[r].index] = graph.op(copy).results[r];
  }
  for (size_t i = 0; i < num_ops; ++i) {
    ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kBackward || !chunks[op.chunk.index]) continue;
    for (ValueId& v : op.operands)
      if (v.valid() && v.index < again.size() && again[v.index].valid() &&
          graph.op(graph.value(v).producer).chunk == op.chunk)
        v = again[v.index];
  }
  graph.sort_ops();
}

}  // namespace

void recompute(ir::Module& module) {
  std::vector<bool> always, sometimes;
  for (const ir::ChunkProperties& row : module.distribution.chunks) {
    always.push_back(row.recomputed_always());
    sometimes.push_back(row.recomputed_sometimes());
  }
  const bool some = std::find(sometimes.begin(), sometimes.end(), true) != sometimes.end();
  for (ir::ModelVariant& variant : module.variants) {
    const analysis::RepeatableOps repeated(variant.chunked, module.distribution.chunks);
    recompute(variant.chunked.graph, always, repeated);
    if (!some) continue;
    variant.repeating = variant.chunked.graph;
    recompute(*variant.repeating, sometimes, repeated);
  }
}

}  // namespace piper::passes
