#include "compiler/passes/cut_segments.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/analysis/repeated_values.h"
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

// What crosses a cut is kept for each microbatch in flight, though it is made by what is repeated. In return what both
// sides make and read is not in memory at once. So at most this part of what either side makes and reads may cross.
constexpr int64_t kKeptPart = 8;
// A segment may make so many times as much to begin where less crosses: where layers join, and not inside one.
constexpr int64_t kLonger = 2;

// Cuts one region, from its end: a segment begins after the op whose parameters would not fit its bucket any more. In a
// region that is repeated, it begins near there, where least is kept.
class RegionCutter {
 public:
  // `ops`: its forward, in order. `first_used`: [op of the graph]. `values`: null where nothing is repeated.
  RegionCutter(std::vector<size_t> ops, int64_t segment_bytes, const std::vector<int64_t>& first_used,
               const analysis::RepeatedValues* values)
      : ops_(std::move(ops)), segment_bytes_(segment_bytes), first_used_(first_used), values_(values) {
    for (size_t op : ops_) {
      used_.push_back((used_.empty() ? 0 : used_.back()) + first_used_[op]);
      if (values_ != nullptr) made_.push_back((made_.empty() ? 0 : made_.back()) + values_->made(op));
    }
  }

  // Marks the ops after which segments begin.
  void mark_cuts(std::vector<bool>& cuts) const {
    for (std::optional<size_t> place = find_cut(ops_.size()); place; place = find_cut(*place + 1))
      cuts[ops_[*place]] = true;
  }

 private:
  struct Place {
    size_t after;    // an index of ops_
    int64_t filled;  // bytes of parameters that the segment uses which begins there
    int64_t kept;    // all that is kept for it
  };

  // The op, as an index of ops_, after which the segment begins that ends before `end`.
  std::optional<size_t> find_cut(size_t end) const {
    int64_t filled = 0, full_with = -1, made_at_most = -1;
    analysis::KeptBytes kept;
    std::vector<Place> places;
    for (size_t i = end; i-- > 0;) {
      if (used_[i] == 0) break;
      const int64_t bytes = first_used_[ops_[i]];
      if (full_with < 0 && bytes > 0 && filled > 0 && filled + bytes > segment_bytes_) full_with = filled;
      if (full_with >= 0 && values_ == nullptr) return i;
      if (values_ != nullptr) {
        const int64_t made = made_[end - 1] - made_[i];
        if (made_at_most >= 0 && made > made_at_most) break;
        const auto is_little_of = [&](int64_t after) {
          return kKeptPart * kept.crossing <= std::min(after, made_[i] + used_[i]);
        };
        if (is_little_of(made + filled)) places.push_back({i, filled, kept.all});
        // Parameters alone do not end the search: with few tokens they outweigh whatever crosses inside a layer.
        if (full_with >= 0 && made_at_most < 0 && is_little_of(made)) made_at_most = kLonger * made;
        values_->pass(ops_[i], ops_[end - 1], kept);
      }
      filled += bytes;
    }
    return full_with < 0 ? std::nullopt : best(places, full_with);
  }

  // Where least is kept, or hardly more: the place that leaves the bucket fullest, else the nearest beyond.
  std::optional<size_t> best(std::vector<Place> places, int64_t full_with) const {
    std::erase_if(places, [&](const Place& place) {
      return place.filled <= segment_bytes_ / 2 && place.filled < full_with;  // a bucket of about the size asked for
    });
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Place& place : places) least = std::min(least, place.kept);
    std::optional<size_t> best;
    for (const Place& place : places)
      if (kKeptPart * (place.kept - least) <= least && (!best || place.filled <= full_with)) best = place.after;
    return best;
  }

  const std::vector<size_t> ops_;
  const int64_t segment_bytes_;
  const std::vector<int64_t>& first_used_;
  const analysis::RepeatedValues* const values_;
  std::vector<int64_t> used_, made_;  // [op] bytes of parameters and of values, of it and all before it
};

// [op] whether a segment begins right after it.
std::vector<bool> find_cuts(const ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows) {
  const ir::Graph& graph = chunked.graph;
  const std::vector<int64_t> first_used = first_used_bytes(graph);
  const analysis::RepeatedValues values(chunked, rows);
  std::vector<std::vector<size_t>> ops(chunked.chunks.size());
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (op.phase == Phase::kForward && op.chunk.valid()) ops[op.chunk.index].push_back(i);
  }
  std::vector<bool> cuts(graph.num_ops(), false);
  for (size_t r = 0; r < ops.size(); ++r) {
    if (rows[r].segment_bytes < 0 || ops[r].empty()) continue;
    const bool repeats = rows[r].recomputed_always() || rows[r].recomputed_sometimes();
    RegionCutter(std::move(ops[r]), rows[r].segment_bytes, first_used, repeats ? &values : nullptr).mark_cuts(cuts);
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
  // Variants are cut alike, though what crosses a cut in one may be of another size.
  std::vector<bool> cuts;
  return regions::refine_variants(module, diags, [&](ir::ChunkedGraph& chunked) {
    if (cuts.size() != chunked.graph.num_ops()) cuts = find_cuts(chunked, module.distribution.chunks);
    return Result<std::vector<ir::ChunkId>>(cut_segments(chunked, cuts));
  });
}

}  // namespace piper::passes
