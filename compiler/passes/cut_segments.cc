#include "compiler/passes/cut_segments.h"

#include <algorithm>

#include "compiler/regions/refine_variants.h"

namespace piper::passes {

using ir::OpId;
using ir::Phase;
using ir::ValueId;
using ir::ValueKind;

std::vector<int64_t> first_used_bytes(const ir::Graph& graph) {
  std::vector<int64_t> bytes(graph.num_ops(), 0);
  std::vector<std::vector<ir::ChunkId>> seen(graph.parameters().size());
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kForward) continue;
    for (ValueId v : op.operands) {
      if (!v.valid() || graph.value(v).kind != ValueKind::kParameter) continue;
      const uint32_t p = graph.value(v).payload;
      if (!graph.parameters()[p].trainable || std::find(seen[p].begin(), seen[p].end(), op.chunk) != seen[p].end())
        continue;
      seen[p].push_back(op.chunk);
      bytes[i] += graph.type(v).bytes();
    }
  }
  return bytes;
}

namespace {

// `bucket_bytes`: [chunk], -1 = leave the region whole, 0 = a segment wherever a parameter is first used. Returns
// [chunk] -> the region it was cut from.
std::vector<ir::ChunkId> cut_segments(ir::ChunkedGraph& chunked, const std::vector<int64_t>& bucket_bytes) {
  ir::Graph& graph = chunked.graph;
  const size_t num_regions = chunked.chunks.size();
  const std::vector<int64_t> bytes = first_used_bytes(graph);
  // From the end of each region: a segment is closed before the op whose parameters would not fit any more.
  std::vector<int32_t> from_end(graph.num_ops(), 0), segments(num_regions, 1);
  std::vector<int64_t> filled(num_regions, 0);
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kForward || !op.chunk.valid()) continue;
    const size_t r = op.chunk.index;
    if (bucket_bytes[r] >= 0 && bytes[i] > 0) {
      if (filled[r] > 0 && filled[r] + bytes[i] > bucket_bytes[r]) {
        ++segments[r];
        filled[r] = 0;
      }
      filled[r] += bytes[i];
    }
    from_end[i] = segments[r] - 1;
  }
  std::vector<int32_t> first(num_regions, 0);  // [region] -> its first chunk
  std::vector<ir::Chunk> chunks;
  std::vector<ir::ChunkId> from;
  for (size_t r = 0; r < num_regions; ++r) {
    first[r] = static_cast<int32_t>(chunks.size());
    for (int32_t s = 0; s < segments[r]; ++s) {
      ir::Chunk chunk = chunked.chunks[r];
      if (chunk.region < 0) chunk.region = static_cast<int32_t>(r);
      if (segments[r] > 1) chunk.name += "/" + std::to_string(s + 1);
      chunks.push_back(std::move(chunk));
      from.push_back(ir::ChunkId(r));
    }
  }
  // A count is taken where its first reader is; later segments of the region come after that one.
  std::vector<int32_t> counted(num_regions, -1);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kForward || !op.chunk.valid() || counted[op.chunk.index] >= 0) continue;
    for (ValueId v : op.operands)
      if (v.valid() && graph.value(v).kind == ValueKind::kOpResult) {
        const ir::Op& producer = graph.op(graph.value(v).producer);
        if (producer.phase != Phase::kForward && producer.chunk == op.chunk)
          counted[op.chunk.index] = segments[op.chunk.index] - 1 - from_end[i];
      }
  }
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    ir::Op& op = graph.op(OpId(i));
    if (!op.chunk.valid()) continue;
    const size_t r = op.chunk.index;
    const int32_t segment = op.phase == Phase::kForward ? segments[r] - 1 - from_end[i]
                            : counted[r] >= 0           ? counted[r]
                                                        : segments[r] - 1;
    op.chunk = ir::ChunkId(static_cast<size_t>(first[r] + segment));
  }
  chunked.chunks = std::move(chunks);
  return from;
}

}  // namespace

Status cut_segments(ir::Module& module, diag::Diagnostics& diags) {
  std::vector<int64_t> bytes;
  for (const ir::ChunkProperties& row : module.distribution.chunks) bytes.push_back(row.segment_bytes);
  return regions::refine_variants(module, diags, [&](ir::ChunkedGraph& chunked) {
    return Result<std::vector<ir::ChunkId>>(cut_segments(chunked, bytes));
  });
}

}  // namespace piper::passes
