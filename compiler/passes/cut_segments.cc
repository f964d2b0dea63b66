#include "compiler/passes/cut_segments.h"

#include <algorithm>

#include "compiler/ir/op_traits.h"
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

// A repeated region keeps what crosses a cut: only what is at most this part of what the later segment makes.
constexpr int64_t kKeptPart = 8;

// What is asked of a region.
struct Cutting {
  int64_t bucket_bytes = -1;  // -1 = leave it whole, 0 = a segment wherever a parameter is first used
  bool repeats = false;       // its forward, at least of some microbatches
};

// Walks a graph from its end, and says what crosses a cut at the place that was reached.
class Crossings {
 public:
  Crossings(const ir::Graph& graph, size_t num_regions)
      : graph_(graph), crosses_(graph.num_values(), false), crossing_(num_regions, 0), made_(num_regions, 0) {}

  void pass(const ir::Op& op) {
    const size_t r = op.chunk.index;
    for (ValueId result : op.results) {
      if (crosses_[result.index]) crossing_[r] -= graph_.type(result).bytes();
      if (!is_view(op.kind)) made_[r] += graph_.type(result).bytes();
    }
    for (ValueId v : op.operands) {
      if (!v.valid() || crosses_[v.index] || graph_.value(v).kind != ValueKind::kOpResult) continue;
      const ir::Op& producer = graph_.op(graph_.value(v).producer);
      if (producer.phase != Phase::kForward || producer.chunk != op.chunk) continue;
      crosses_[v.index] = true;
      crossing_[r] += graph_.type(v).bytes();
    }
  }
  void cut(size_t region) { made_[region] = 0; }
  bool few(size_t region) const { return kKeptPart * crossing_[region] <= made_[region]; }

 private:
  static bool is_view(ir::OpKind kind) {
    const ir::AxisRule rule = ir::axis_rule(kind);
    return rule == ir::AxisRule::kReshape || rule == ir::AxisRule::kPermute || rule == ir::AxisRule::kExpand;
  }

  const ir::Graph& graph_;
  std::vector<bool> crosses_;      // [value] it is read after the place
  std::vector<int64_t> crossing_;  // [region] bytes
  std::vector<int64_t> made_;      // [region] bytes made since the last cut
};

// [op] whether a segment begins right after it: from the end of each region, a segment is closed before the op whose
// parameters would not fit any more, or, in a region that is repeated, where little crosses.
std::vector<bool> find_cuts(const ir::ChunkedGraph& chunked, const std::vector<Cutting>& asked) {
  const ir::Graph& graph = chunked.graph;
  const size_t num_regions = chunked.chunks.size();
  const std::vector<int64_t> bytes = first_used_bytes(graph);
  std::vector<int64_t> left(num_regions, 0), filled(num_regions, 0);
  for (size_t i = 0; i < graph.num_ops(); ++i)
    if (graph.op(OpId(i)).chunk.valid()) left[graph.op(OpId(i)).chunk.index] += bytes[i];
  std::vector<bool> cuts(graph.num_ops(), false), full(num_regions, false);
  Crossings crossings(graph, num_regions);
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kForward || !op.chunk.valid()) continue;
    const size_t r = op.chunk.index;
    if (asked[r].bucket_bytes < 0) continue;
    full[r] = full[r] || (bytes[i] > 0 && filled[r] > 0 && filled[r] + bytes[i] > asked[r].bucket_bytes);
    if (full[r] && left[r] > 0 && (!asked[r].repeats || crossings.few(r))) {
      cuts[i] = true;
      full[r] = false;
      filled[r] = 0;
      crossings.cut(r);
    }
    filled[r] += bytes[i];
    left[r] -= bytes[i];
    if (asked[r].repeats) crossings.pass(op);
  }
  return cuts;
}

// Returns [chunk] -> the region it was cut from.
std::vector<ir::ChunkId> cut_segments(ir::ChunkedGraph& chunked, const std::vector<bool>& cuts) {
  ir::Graph& graph = chunked.graph;
  const size_t num_regions = chunked.chunks.size();
  std::vector<int32_t> from_end(graph.num_ops(), 0), segments(num_regions, 1);
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase != Phase::kForward || !op.chunk.valid()) continue;
    segments[op.chunk.index] += cuts[i] ? 1 : 0;
    from_end[i] = segments[op.chunk.index] - 1;
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
  std::vector<Cutting> asked;
  for (const ir::ChunkProperties& row : module.distribution.chunks)
    asked.push_back({row.segment_bytes, row.recomputed_always() || row.recomputed_sometimes()});
  // Variants are cut alike, though what crosses a cut in one may be of another size.
  std::vector<bool> cuts;
  return regions::refine_variants(module, diags, [&](ir::ChunkedGraph& chunked) {
    if (cuts.size() != chunked.graph.num_ops()) cuts = find_cuts(chunked, asked);
    return Result<std::vector<ir::ChunkId>>(cut_segments(chunked, cuts));
  });
}

}  // namespace piper::passes
