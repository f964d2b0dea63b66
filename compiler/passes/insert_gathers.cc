#include "compiler/passes/insert_gathers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace piper::passes {

using ir::BucketId;
using ir::NodeId;

void insert_gathers(ir::Dag& dag, const std::vector<ChunkShape>& shapes) {
  const bool any = std::any_of(dag.buckets.begin(), dag.buckets.end(), [](const ir::Bucket& b) { return b.sharded == ir::Sharded::kParameters; });
  if (!any) return;
  const size_t n = dag.order.size();
  std::vector<std::vector<NodeId>> before(n);                 // [position in the order] gathers issued in front of it
  std::map<uint32_t, std::vector<size_t>> computes;           // group -> positions of its computes so far
  std::set<std::tuple<uint32_t, int32_t>> alive;              // (bucket, microbatch or -1): gathered once already
  for (size_t i = 0; i < n; ++i) {
    const ir::Node node = dag.nodes[dag.order[i].index];
    const auto* compute = std::get_if<ir::ComputeNode>(&node.payload);
    if (compute == nullptr) continue;
    std::vector<size_t>& positions = computes[node.group.index];
    positions.push_back(i);
    std::vector<BucketId> read;
    for (uint32_t p : shapes[compute->chunk.index].pass_reads[static_cast<size_t>(compute->pass)])
      for (ir::AccumulatorId use : dag.parameter_uses[p]) {
        const ir::Accumulator& a = dag.accumulators[use.index];
        if (a.group != node.group || dag.buckets[a.bucket.index].sharded != ir::Sharded::kParameters) continue;
        if (std::find(read.begin(), read.end(), a.bucket) == read.end()) read.push_back(a.bucket);
      }
    for (BucketId b : read) {
      const ir::Bucket& bucket = dag.buckets[b.index];
      if (bucket.residency != ir::Residency::kUse &&
          !alive.emplace(b.index, bucket.residency == ir::Residency::kStep ? -1 : compute->microbatch).second)
        continue;
      ir::AllGatherNode gather;
      gather.bucket = b;
      gather.reader = *compute;
      const uint32_t stream = bucket.gather_stream;
      const ir::ProvId prov = bucket.prov;
      const size_t ahead = std::min<size_t>(static_cast<size_t>(bucket.prefetch), positions.size() - 1);
      const NodeId id = dag.add_node(gather, node.group, stream, prov);
      dag.add_edge(id, dag.order[i]);
      before[positions[positions.size() - 1 - ahead]].push_back(id);
    }
  }
  std::vector<NodeId> order;
  order.reserve(dag.nodes.size());
  for (size_t i = 0; i < n; ++i) {
    order.insert(order.end(), before[i].begin(), before[i].end());
    order.push_back(dag.order[i]);
  }
  dag.order = std::move(order);
}

}  // namespace piper::passes
