#include "compiler/passes/fuse_chunks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "compiler/passes/cut_segments.h"
#include "compiler/regions/refine_variants.h"

namespace piper::passes {
namespace {

using ir::ChunkId;
using ir::OpId;
using ir::ValueId;
using ir::ValueKind;

struct ChunkTraits {
  std::vector<int32_t> place;         // [chunk] equal where chunks run on the same devices, microbatch by microbatch
  std::vector<bool> with_previous;    // [chunk] the strategy treats it as it does the chunk before
  std::vector<int64_t> bucket_bytes;  // [chunk] no fused chunk reads more bytes of trained parameters than this, unless
                                      // one member does; -1: no bound
};

// What crosses the border of a chunk as a message, to or from an exchange or other devices.
struct Messages {
  std::vector<bool> sends, receives;  // [chunk]
};

Messages find_messages(const ir::ChunkedGraph& chunked, const std::vector<int32_t>& place) {
  const ir::Graph& graph = chunked.graph;
  Messages messages{std::vector<bool>(chunked.chunks.size()), std::vector<bool>(chunked.chunks.size())};
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(OpId(i));
    if (!op.chunk.valid()) continue;
    for (ValueId v : op.operands) {
      if (!v.valid() || graph.value(v).kind != ValueKind::kOpResult) continue;
      const ChunkId from = graph.op(graph.value(v).producer).chunk;
      if (!from.valid() || from == op.chunk) continue;
      if (!chunked.chunks[from.index].exchange && !chunked.chunks[op.chunk.index].exchange &&
          place[from.index] == place[op.chunk.index])
        continue;
      messages.sends[from.index] = true;
      messages.receives[op.chunk.index] = true;
    }
  }
  return messages;
}

// [chunk] -> bytes of the trained parameters that it reads.
std::vector<int64_t> trained_bytes(const ir::ChunkedGraph& chunked) {
  std::vector<int64_t> bytes(chunked.chunks.size(), 0);
  const std::vector<int64_t> by_op = first_used_bytes(chunked.graph);
  for (size_t i = 0; i < by_op.size(); ++i)
    if (by_op[i] > 0) bytes[chunked.graph.op(OpId(i)).chunk.index] += by_op[i];
  return bytes;
}

ir::TagSet common_tags(const ir::TagSet& a, const ir::TagSet& b) {
  ir::TagSet common;
  for (const ir::TagValue& tag : a)
    if (std::find(b.begin(), b.end(), tag) != b.end()) common.push_back(tag);
  return common;
}

// [chunk] -> the fused chunk, ids of which are ascending; as many as there are chunks where nothing is fused.
std::vector<ChunkId> find_fusions(const ir::ChunkedGraph& chunked, const ChunkTraits& traits) {
  const std::vector<ir::Chunk>& chunks = chunked.chunks;
  const Messages messages = find_messages(chunked, traits.place);
  const std::vector<int64_t> bytes = trained_bytes(chunked);
  std::set<int32_t> in_pieces;  // regions that conversions cut
  for (const ir::Chunk& chunk : chunks)
    if (chunk.exchange) in_pieces.insert(chunk.region);
  const auto is_piece = [&](size_t c) { return chunks[c].shard >= 0 || in_pieces.count(chunks[c].region) > 0; };
  std::vector<ChunkId> into;
  int64_t filled = 0;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const bool left_over = c > 0 && (is_piece(c) || is_piece(c - 1));
    const bool near = left_over && traits.with_previous[c] && traits.place[c] == traits.place[c - 1] &&
                      !chunks[c].exchange && !chunks[c - 1].exchange && chunks[c].region != chunks[c - 1].region &&
                      !messages.sends[c - 1] && !messages.receives[c];
    const bool fits =
        bytes[c] == 0 || filled == 0 || traits.bucket_bytes[c] < 0 || filled + bytes[c] <= traits.bucket_bytes[c];
    if (near && fits) {
      into.push_back(into.back());
      filled += bytes[c];
    } else {
      into.push_back(into.empty() ? ChunkId(0) : ChunkId(into.back().index + 1));
      filled = bytes[c];
    }
  }
  return into;
}

void fuse_chunks(ir::ChunkedGraph& chunked, const std::vector<ChunkId>& into) {
  std::vector<ir::Chunk> fused;
  std::vector<int32_t> regions;  // [region] -> the region that it became
  const auto root = [&](int32_t region) {
    while (regions[region] != region) region = regions[region];
    return region;
  };
  for (const ir::Chunk& chunk : chunked.chunks)
    if (chunk.region >= static_cast<int32_t>(regions.size())) regions.resize(chunk.region + 1);
  std::iota(regions.begin(), regions.end(), 0);
  for (size_t c = 0; c < into.size(); ++c) {
    const ir::Chunk& chunk = chunked.chunks[c];
    if (into[c].index == fused.size()) {
      fused.push_back(chunk);
      continue;
    }
    fused.back().tags = common_tags(fused.back().tags, chunk.tags);
    fused.back().shard = -1;
    const int32_t a = root(fused.back().region), b = root(chunk.region);
    regions[std::max(a, b)] = std::min(a, b);
  }
  std::vector<bool> named(fused.size(), false);
  for (size_t c = 0; c < into.size(); ++c) {
    ir::Chunk& target = fused[into[c].index];
    if (named[into[c].index] || !(chunked.chunks[c].tags == target.tags)) continue;
    target.name = chunked.chunks[c].name;
    named[into[c].index] = true;
  }
  for (ir::Chunk& chunk : fused) chunk.region = root(chunk.region);
  for (size_t i = 0; i < chunked.graph.num_ops(); ++i) {
    ir::Op& op = chunked.graph.op(OpId(i));
    if (op.chunk.valid()) op.chunk = into[op.chunk.index];
  }
  chunked.chunks = std::move(fused);
}

// The tags of a chunk that orders can name.
ir::TagSet seen_tags(const ir::Chunk& chunk, const std::set<std::string>& named) {
  ir::TagSet seen;
  for (const ir::TagValue& tag : chunk.tags)
    if (named.count(tag.tag) != 0) seen.push_back(tag);
  return seen;
}

ChunkTraits traits_of(const ir::Module& module) {
  const std::vector<ir::Chunk>& chunks = module.chunks();
  const std::vector<ir::ChunkProperties>& rows = module.distribution.chunks;
  const std::set<std::string>& named = module.schedule.told_apart_by;
  const auto recomputed = [](const ir::ChunkProperties& row) {
    return std::find(row.recomputed.begin(), row.recomputed.end(), true) != row.recomputed.end();
  };
  ChunkTraits traits;
  std::map<std::vector<ir::GroupId>, int32_t> places;
  for (size_t c = 0; c < chunks.size(); ++c) {
    traits.place.push_back(places.emplace(rows[c].groups, static_cast<int32_t>(places.size())).first->second);
    traits.bucket_bytes.push_back(rows[c].replication.bucket_bytes);
    traits.with_previous.push_back(c > 0 && rows[c].alike(rows[c - 1]) && !recomputed(rows[c]) &&
                                   seen_tags(chunks[c], named) == seen_tags(chunks[c - 1], named));
  }
  return traits;
}

}  // namespace

Status fuse_chunks(ir::Module& module, diag::Diagnostics& diags) {
  const ir::ModelVariant& smallest = module.variants.back();
  const std::vector<ChunkId> into = find_fusions(smallest.chunked, traits_of(module));
  if (into.empty() || into.back().index + 1 == into.size()) return Status();
  for (ir::ModelVariant& variant : module.variants) {
    if (variant.chunked.chunks.size() != into.size()) return regions::other_structure(variant, smallest, diags);
    fuse_chunks(variant.chunked, into);
  }
  module.merge_chunks(into);
  return Status();
}

}  // namespace piper::passes
