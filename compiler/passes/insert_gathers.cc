#include "compiler/passes/insert_gathers.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace piper::passes {
namespace {

using ir::BucketId;
using ir::NodeId;

// Readers that one gather serves: (bucket, round, chunk, pass). Groups that share a bucket gather for their
// microbatches of one round at once. Where the gathered parameters outlive a use, any pass will do, and any chunk that
// has its microbatches on the same groups; where they live for the step, every reader.
using GatherKey = std::tuple<uint32_t, int32_t, uint32_t, ir::Phase>;

// [chunk] -> the first chunk of equal placement.
std::vector<uint32_t> equally_placed(const ir::Module& module) {
  std::map<std::vector<ir::GroupId>, uint32_t> first;
  std::vector<uint32_t> like(module.chunks().size());
  for (size_t c = 0; c < like.size(); ++c)
    like[c] = first.emplace(module.distribution.chunks[c].groups, static_cast<uint32_t>(c)).first->second;
  return like;
}

GatherKey key_of(const ir::Module& module, const std::vector<uint32_t>& like, BucketId bucket,
                 const ir::ComputeNode& reader) {
  const int32_t round = module.distribution.round_of(reader.chunk, reader.microbatch);
  switch (module.state.buckets[bucket.index].residency) {
    case ir::Residency::kUse: return {bucket.index, round, reader.chunk.index, reader.phase};
    case ir::Residency::kMicrobatch: return {bucket.index, round, like[reader.chunk.index], ir::Phase::kCount};
    case ir::Residency::kStep: return {bucket.index, 0, 0, ir::Phase::kCount};
  }
  return {};
}

// The sharded buckets that a compute reads.
std::vector<BucketId> read_by(const ir::Module& module, const ir::Node& node, const ir::ComputeNode& compute) {
  std::vector<BucketId> read;
  const ir::ChunkShape& shape = module.shapes[compute.chunk.index];
  const auto& reads =
      module.distribution.repeats(compute.chunk, compute.microbatch) ? shape.repeating_reads : shape.phase_reads;
  for (uint32_t p : reads[static_cast<size_t>(compute.phase)])
    for (ir::AccumulatorId use : module.state.parameter_uses[p]) {
      const ir::Accumulator& a = module.state.accumulators[use.index];
      if (!module.distribution.has_member(a.group, module.distribution.ranks(node.group)[0])) continue;
      const bool sharded = module.state.buckets[a.bucket.index].parameters == ir::Kept::kPart;
      if (sharded && std::find(read.begin(), read.end(), a.bucket) == read.end()) read.push_back(a.bucket);
      break;  // later uses on this group read the same place
    }
  return read;
}

struct Gather {
  NodeId node;
  size_t before = 0;                // position in the order
  size_t last = 0;                  // reader, as place among the computes of its group
  std::vector<ir::GroupId> served;  // groups that have their reader
};

// How many computes before its reader, the last of `computes`, a bucket is gathered.
size_t computes_ahead(const ir::Bucket& bucket, size_t computes) {
  return std::min<size_t>(static_cast<size_t>(bucket.prefetch), computes - 1);
}

}  // namespace

void insert_gathers(ir::Module& module) {
  const bool any = std::any_of(module.state.buckets.begin(), module.state.buckets.end(),
                               [](const ir::Bucket& b) { return b.parameters == ir::Kept::kPart; });
  if (!any) return;
  const std::vector<uint32_t> like = equally_placed(module);
  const size_t n = module.dag.order.size();
  std::map<uint32_t, std::vector<size_t>> computes;  // group -> positions of its computes so far
  std::map<GatherKey, size_t> known;                 // index into `gathers`
  std::map<uint32_t, size_t> latest;                 // bucket -> the same
  std::vector<Gather> gathers;
  for (size_t i = 0; i < n; ++i) {
    const ir::Node node = module.dag.nodes[module.dag.order[i].index];
    const auto* compute = std::get_if<ir::ComputeNode>(&node.payload);
    if (compute == nullptr) continue;
    std::vector<size_t>& positions = computes[node.group.index];
    positions.push_back(i);
    for (BucketId b : read_by(module, node, *compute)) {
      const ir::Bucket& bucket = module.state.buckets[b.index];
      const size_t ahead = computes_ahead(bucket, positions.size());
      const auto [place, fresh] = known.emplace(key_of(module, like, b, *compute), gathers.size());
      const auto before = latest.find(b.index);
      // What is still there when it would be gathered again serves this reader, too: both buffers would be alive. Where
      // several groups share a bucket, each of them would have to be so far.
      const bool kept = fresh && before != latest.end() && bucket.group == node.group &&
                        positions.size() - 1 - ahead <= gathers[before->second].last;
      if (kept) {
        place->second = before->second;
      } else if (fresh) {
        ir::CollectiveNode gather{ir::CollectiveKind::kAllGather, ir::ParameterOperand{b, {}}, bucket.teams,
                                  bucket.read(), plan::Reduction::kSum};
        gathers.push_back(
            {module.dag.add_node(std::move(gather), bucket.group, bucket.gather_stream, bucket.prov), i, 0, {}});
      }
      latest[b.index] = place->second;
      Gather& gather = gathers[place->second];
      gather.last = positions.size() - 1;
      module.state.gathers[{b, module.dag.order[i]}] = gather.node;
      if (std::find(gather.served.begin(), gather.served.end(), node.group) != gather.served.end()) continue;
      gather.served.push_back(node.group);
      auto& collective = std::get<ir::CollectiveNode>(module.dag.nodes[gather.node.index].payload);
      std::get<ir::ParameterOperand>(collective.what).readers.push_back(*compute);
      module.dag.add_edge(gather.node, module.dag.order[i]);
      gather.before = std::min(gather.before, positions[positions.size() - 1 - ahead]);
    }
  }
  std::vector<std::vector<NodeId>> before(n);  // [position in the order] gathers issued before it
  for (const Gather& gather : gathers) before[gather.before].push_back(gather.node);
  std::vector<NodeId> order;
  order.reserve(module.dag.nodes.size());
  for (size_t i = 0; i < n; ++i) {
    order.insert(order.end(), before[i].begin(), before[i].end());
    order.push_back(module.dag.order[i]);
  }
  module.dag.order = std::move(order);
}

}  // namespace piper::passes
