#include "compiler/passes/recompute.h"

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/analysis/repeatable_ops.h"
#include "compiler/ir/op_traits.h"
#include "compiler/regions/refine_variants.h"
#include "compiler/tensors/gather_again.h"

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

// Whole of the forward -> the same that the backward gathers again (tensors/gather_again.h): what is repeated reads it.
std::map<ValueId, ValueId> gathered_again(const ir::Graph& graph) {
  std::map<std::vector<ValueId>, ValueId> forward;  // by operands
  std::map<ValueId, ValueId> again;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.kind != ir::OpKind::kAllGather) continue;
    if (op.phase == Phase::kForward) forward[op.operands] = op.results[0];
    else if (const auto found = forward.find(op.operands); found != forward.end()) again[found->second] = op.results[0];
  }
  return again;
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
  const std::map<ValueId, ValueId> wholes = gathered_again(graph);
  std::vector<ValueId> again(graph.num_values());
  for (size_t i = 0; i < num_ops; ++i) {
    if (!needed[i]) continue;
    const ir::Op op = graph.op(OpId(i));  // a copy: appending moves the list
    std::vector<ValueId> operands = op.operands;
    for (ValueId& v : operands) {  // what another chunk made is kept, though that chunk may repeat it for itself
      if (const auto whole = wholes.find(v); whole != wholes.end()) v = whole->second;
      else if (v.valid() && again[v.index].valid() && graph.op(graph.value(v).producer).chunk == op.chunk)
        v = again[v.index];
    }
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

Status recompute(ir::Module& module, diag::Diagnostics& diags) {
  const auto rows_that = [&](bool (ir::ChunkProperties::*are_recomputed)() const) {
    std::vector<bool> chosen;
    for (const ir::ChunkProperties& row : module.distribution.chunks) chosen.push_back((row.*are_recomputed)());
    return chosen;
  };
  const std::vector<bool> always = rows_that(&ir::ChunkProperties::recomputed_always);
  PIPER_RETURN_IF_ERROR(
      regions::refine_variants(module, diags, [&](ir::ChunkedGraph& chunked) -> Result<std::vector<ir::ChunkId>> {
        recompute(chunked.graph, always, analysis::RepeatableOps(chunked, module.distribution.chunks));
        return tensors::gather_again(chunked, module.distribution.chunks);
      }));
  const std::vector<bool> sometimes = rows_that(&ir::ChunkProperties::recomputed_sometimes);
  if (std::find(sometimes.begin(), sometimes.end(), true) == sometimes.end()) return Status();
  for (ir::ModelVariant& variant : module.variants) {
    const analysis::RepeatableOps repeated(variant.chunked, module.distribution.chunks);
    variant.repeating = variant.chunked.graph;
    recompute(*variant.repeating, sometimes, repeated);
  }
  return Status();
}

}  // namespace piper::passes
