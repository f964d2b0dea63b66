#include "compiler/driver/fuse_alike_chunks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "compiler/passes/fuse_chunks.h"
#include "compiler/strategy/directive_args.h"

namespace piper::driver {
namespace {

std::set<std::string> tags_named(const std::vector<const strategy::Directive*>& orders) {
  std::set<std::string> named;
  for (const strategy::Directive* order : orders)
    if (const auto* groups = strategy::find_arg<strategy::FilterGroups>(*order, "filters"))
      for (const auto& group : *groups)
        for (const strategy::Filter& filter : group)
          for (const strategy::FilterTerm& term : filter.terms)
            if (named.count(term.tag) == 0) named.insert(term.tag);
  return named;
}

// The tags of a chunk that orders can name.
ir::TagSet seen_tags(const ir::Chunk& chunk, const std::set<std::string>& named) {
  ir::TagSet seen;
  for (const ir::TagValue& tag : chunk.tags)
    if (named.count(tag.tag) != 0) seen.push_back(tag);
  return seen;
}

using ComputeStreams = std::vector<std::tuple<ir::Pass, int32_t, uint32_t>>;  // pass, microbatch, stream

}  // namespace

std::vector<ir::ChunkId> fuse_alike_chunks(const std::vector<const strategy::Directive*>& orders,
                                           ir::ChunkedGraph& chunked, ir::Dag& dag, directives::Placement& placement) {
  const std::set<std::string> named = tags_named(orders);
  const size_t num_chunks = dag.chunks.size();
  std::vector<ComputeStreams> streams(num_chunks);
  for (const auto& [at, stream] : dag.streams_of_compute)
    streams[std::get<0>(at)].emplace_back(std::get<1>(at), std::get<2>(at), stream);
  passes::ChunkTraits traits;
  std::map<std::vector<ir::GroupId>, int32_t> places;
  const auto recomputed = [&](size_t c) {
    return std::any_of(dag.recomputed[c].begin(), dag.recomputed[c].end(), [](bool is) { return is; });
  };
  for (size_t c = 0; c < num_chunks; ++c) {
    traits.place.push_back(places.emplace(dag.placement[c], static_cast<int32_t>(places.size())).first->second);
    traits.bucket_bytes.push_back(dag.replication[c].bucket_bytes);
    traits.with_previous.push_back(
        c > 0 && dag.chunk_stream[c] == dag.chunk_stream[c - 1] && dag.chunk_prov[c] == dag.chunk_prov[c - 1] &&
        dag.replication[c] == dag.replication[c - 1] && dag.backward_split[c] == dag.backward_split[c - 1] &&
        streams[c] == streams[c - 1] && !recomputed(c) && !recomputed(c - 1) &&
        seen_tags(dag.chunks[c], named) == seen_tags(dag.chunks[c - 1], named));
  }
  const std::vector<ir::ChunkId> into = passes::find_fusions(chunked, traits);
  if (into.empty() || into.back().index + 1 == num_chunks) return into;
  passes::fuse_chunks(chunked, into);
  dag.fuse_chunks(into);
  dag.chunks = chunked.chunks;
  placement.fuse_chunks(into);
  return into;
}

}  // namespace piper::driver
