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

// [op] Forwards whose results a backward of their own chunk needs, directly or through others that are repeated.
// `chunks`: [chunk], the ones to repeat. `made`: values that are made again already.
std::vector<bool> ops_to_repeat(const ir::Graph& graph, const std::vector<bool>& chunks,
                                const std::vector<ir::ChunkProperties>& rows, const analysis::RepeatableOps& repeated,
                                const std::map<ValueId, ValueId>& made) {
  std::vector<bool> needed(graph.num_ops(), false);
  const ir::Uses readers = graph.uses();
  const auto reads_later = [&](OpId id) { return graph.op(id).phase == Phase::kBackward || needed[id.index]; };
  // Another chunk of the same devices keeps the value until its backward, which is before this one's.
  const auto is_kept = [&](ValueId v, ir::ChunkId chunk) {
    return std::any_of(readers[v.index].begin(), readers[v.index].end(), [&](OpId id) {
      const ir::ChunkId reader = graph.op(id).chunk;
      return reader.valid() && reader != chunk && reads_later(id) &&
             rows[reader.index].groups == rows[chunk.index].groups;
    });
  };
  const auto is_needed = [&](const ir::Op& op) {
    return std::any_of(op.results.begin(), op.results.end(), [&](ValueId v) {
      return std::any_of(readers[v.index].begin(), readers[v.index].end(),
                         [&](OpId id) { return graph.op(id).chunk == op.chunk && reads_later(id); }) &&
             !is_kept(v, op.chunk);
    });
  };
  for (size_t i = graph.num_ops(); i-- > 0;) {  // readers come after what they read
    const ir::Op& op = graph.op(OpId(i));
    needed[i] = op.phase == Phase::kForward && op.chunk.valid() && chunks[op.chunk.index] &&
                !ir::is_conversion(op.kind) && made.count(op.results[0]) == 0 && repeated.has(graph, op) &&
                !changes_state(graph, op) && is_needed(op);
  }
  return needed;
}

// What is repeated reads what was sent again, and what was made for that.
void recompute(ir::Graph& graph, const std::vector<bool>& chunks, const std::vector<ir::ChunkProperties>& rows,
               const analysis::RepeatableOps& repeated, const tensors::GatheredAgain& sent) {
  if (std::none_of(chunks.begin(), chunks.end(), [](bool chosen) { return chosen; })) return;
  const size_t num_ops = graph.num_ops();
  const std::vector<bool> needed = ops_to_repeat(graph, chunks, rows, repeated, sent.made);
  std::vector<ValueId> again(graph.num_values());
  for (const auto& [value, made] : sent.made) again[value.index] = made;
  const auto chunk_of = [&](ValueId v) { return graph.op(graph.value(v).producer).chunk; };
  const auto is_sent = [&](ValueId whole, ir::ChunkId reader) {
    return rows[chunk_of(whole).index].groups == rows[reader.index].groups;
  };
  for (size_t i = 0; i < num_ops; ++i) {
    if (!needed[i]) continue;
    const ir::Op op = graph.op(OpId(i));  // a copy: appending moves the list
    std::vector<ValueId> operands = op.operands;
    for (ValueId& v : operands) {  // what another chunk made is kept, though that chunk may repeat it for itself
      const auto whole = sent.wholes.find(v);
      if (whole != sent.wholes.end() && is_sent(whole->second, op.chunk)) v = whole->second;
      else if (v.valid() && again[v.index].valid() && chunk_of(v) == op.chunk) v = again[v.index];
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
      if (v.valid() && v.index < again.size() && again[v.index].valid() && chunk_of(v) == op.chunk) v = again[v.index];
  }
  graph.sort_ops();
}

}  // namespace

Status recompute(ir::Module& module, diag::Diagnostics& diags) {
  const std::vector<ir::ChunkProperties>& rows = module.distribution.chunks;
  const auto always_repeated = [&] {
    std::vector<bool> always;
    for (const ir::ChunkProperties& row : rows) always.push_back(row.recomputed_always());
    return always;
  };
  std::map<const ir::ChunkedGraph*, tensors::GatheredAgain> sent;
  PIPER_RETURN_IF_ERROR(regions::refine_variants(module, diags, [&](ir::ChunkedGraph& chunked) {
    const analysis::RepeatableOps repeated(chunked, rows);
    const std::vector<bool> needed = ops_to_repeat(chunked.graph, always_repeated(), rows, repeated, {});
    // Products that dispatch tokens are repeated for experts; attention before them would be repeated twice.
    const auto repeats = [&](const ir::Op& op, ir::OpKind conversion) {
      const ir::ChunkProperties& row = rows[op.chunk.index];
      const bool exchanges = conversion == ir::OpKind::kAllToAll;
      const bool cheap =
          exchanges ? op.kind != ir::OpKind::kSdpa : ir::is_among(op.kind, ir::RepeatedOps::kAllButProducts);
      return row.recomputed_always() && cheap &&
             (!exchanges || (row.repeats.ops == ir::RepeatedOps::kAll && !row.repeats.keeps_exchanged)) &&
             repeated.has(chunked.graph, op) && !changes_state(chunked.graph, op);
    };
    tensors::GatheredAgain again =
        tensors::gather_again(chunked, rows, repeats, [&](OpId id) { return needed[id.index]; });
    std::vector<ir::ChunkId> from = std::move(again.from);
    sent[&chunked] = std::move(again);
    return Result<std::vector<ir::ChunkId>>(std::move(from));
  }));
  const std::vector<bool> always = always_repeated();
  std::vector<bool> sometimes;
  for (const ir::ChunkProperties& row : rows) sometimes.push_back(row.recomputed_sometimes());
  const bool some = std::find(sometimes.begin(), sometimes.end(), true) != sometimes.end();
  for (ir::ModelVariant& variant : module.variants) {
    const analysis::RepeatableOps repeated(variant.chunked, rows);
    recompute(variant.chunked.graph, always, rows, repeated, sent[&variant.chunked]);
    if (!some) continue;
    variant.repeating = variant.chunked.graph;
    recompute(*variant.repeating, sometimes, rows, repeated, sent[&variant.chunked]);
  }
  return Status();
}

}  // namespace piper::passes
