#include "compiler/passes/partition_tensors.h"

#include "compiler/regions/cut_at_exchanges.h"
#include "compiler/regions/refine_variants.h"
#include "compiler/tensors/asked_cuts.h"
#include "compiler/tensors/asked_sequences.h"
#include "compiler/tensors/carry_shares.h"
#include "compiler/tensors/convert_columns.h"
#include "compiler/tensors/convert_rest.h"
#include "compiler/tensors/cut_tables.h"

namespace piper::passes {
namespace {

using tensors::FollowedCuts;

// The directive that cuts along `dim` in a chunk; where none does, the first that cuts anything there.
diag::Span line_of(const ir::Distribution& distribution, ir::ChunkId chunk, ir::CutDim dim) {
  const std::vector<ir::CutSeed>& seeds = distribution.chunks[chunk.index].seeds;
  for (const ir::CutSeed& seed : seeds)
    if (seed.dim == dim) return seed.span;
  return seeds.front().span;
}

Result<std::vector<ir::ChunkId>> partition(ir::ChunkedGraph& chunked, const ir::Distribution& distribution,
                                           diag::Diagnostics& diags) {
  ir::Graph& graph = chunked.graph;
  const std::vector<tensors::ChunkCut> chunks = tensors::find_chunk_cuts(distribution);
  const std::vector<tensors::ChunkCut> of_sequences = tensors::chunks_of_sequences(distribution, chunks);
  tensors::AskedCuts asked(chunked, distribution, chunks, diags);
  PIPER_ASSIGN(FollowedCuts found, asked.follow());
  tensors::carry_shares(graph, chunks, found);
  const auto builder_at = [&](const ir::Op& op, ir::CutDim dim) {
    const ir::ProvId by = graph.provenance().directive({"shard", diags.place(line_of(distribution, op.chunk, dim))});
    ir::GraphBuilder b(graph, op.scope, graph.provenance().derived("partition_tensors", {op.prov, by}));
    b.set_chunk(op.chunk);
    b.set_phase(op.phase);
    return b;
  };
  tensors::cut_tables(graph, asked.tables(), chunks, builder_at, found);
  asked.tell(found);
  const tensors::Rest rest = tensors::find_rest(graph, of_sequences, found);
  PIPER_RETURN_IF_ERROR(tensors::check_sequences(graph, distribution, rest, diags));
  regions::ExchangeMarks marks;
  marks.pass = "partition_tensors";
  marks.cut.resize(chunked.chunks.size(), false);
  tensors::ConvertColumns columns(graph, chunks, builder_at, marks.cut, marks.way);
  columns.cut_values(found, asked.tables());
  columns.cut_values(rest, found);
  columns.enter(found, rest);
  columns.add_up(found, rest);
  for (const ir::ChunkId chunk : tensors::convert_rest(chunked, rest, of_sequences, builder_at, marks.way))
    marks.cut[chunk.index] = true;
  for (const ir::ChunkId chunk :
       tensors::take_own_parts(graph, found.own, ir::CutDim::kColumn, chunks, builder_at, marks.way))
    marks.cut[chunk.index] = true;
  graph.sort_ops();
  return regions::cut_at_exchanges(chunked, marks);
}

}  // namespace

Status partition_tensors(ir::Module& module, diag::Diagnostics& diags) {
  if (module.distribution.cuts.empty()) return Status();
  return regions::refine_variants(
      module, diags, [&](ir::ChunkedGraph& chunked) { return partition(chunked, module.distribution, diags); });
}

}  // namespace piper::passes
