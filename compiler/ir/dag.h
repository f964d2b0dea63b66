// The training DAG: every compute and every communication of one step on the whole cluster. A node
// lives on a device *group*, so that the DAG does not grow with replicas. Directives and passes edit it; the emitter
// projects it onto ranks. It knows chunks, passes and microbatches; kernels and bytes come later.
//
// Edges are stored as (from, to, why): data edges follow from crossings of the model graph, order edges from `order`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/chunks.h"
#include "compiler/ir/ids.h"

namespace piper::ir {

using NodeId = Id<struct NodeTag>;
using GroupId = Id<struct GroupTag>;              // Dag::groups
using AccumulatorId = Id<struct AccumulatorTag>;  // Dag::accumulators
using BucketId = Id<struct BucketTag>;            // Dag::buckets

// Ranks in replica order: the position in the list is the replica index.
struct DeviceGroup {
  std::vector<int32_t> ranks;
};

// A pass of a chunk on one microbatch.
enum class Pass : uint8_t { kCount, kForward, kBackward, kBackwardWeight };
inline constexpr size_t kNumPasses = 4;
struct ComputeNode {
  ChunkId chunk;
  Pass pass = Pass::kForward;
  int32_t microbatch = 0;
};
// A pass of a chunk that is an all_to_all.
struct ExchangeNode {
  ComputeNode at;
};
// Work done once per step.
enum class StepWork : uint8_t {
  kCountFinish,    // chunk: 1/count of every mean loss
  kLossFinish,     // the step's loss is taken, the accumulator cleared
  kDroppedFinish,  // the same of the number of dropped rows
  kCombine,        // parameter: gradients of its uses are added up
  kNormPart,       // squared norms of the gradients a rank owns
  kClip,           // total norm and the factor on gradients
};
struct StepNode {
  StepWork work = StepWork::kCountFinish;
  ChunkId chunk;           // kCountFinish
  uint32_t parameter = 0;  // kCombine: index into Graph::parameters
};
// One message: every member of `to` that does not hold the thing yet receives it from its peer in the node's group.
enum class Cargo : uint8_t { kValue, kAccumulator, kLoss };
struct TransferNode {
  Cargo cargo = Cargo::kValue;
  ValueId value;              // kValue: a root of the model graph
  int32_t microbatch = 0;     // kValue
  AccumulatorId accumulator;  // kAccumulator
  GroupId to;
  Pass pass = Pass::kForward;
};
// Every member of a bucket's team ends with the sum of its part of the gradients.
struct ReduceScatterNode {
  BucketId bucket;
  std::vector<int32_t> microbatches;  // one of each device group that the bucket's chunks run on, while it has some;
                                      // empty: once per step
};
// Every member of a bucket's team ends with the whole parameters.
struct AllGatherNode {
  BucketId bucket;
  bool updated = false;  // after the update, into the parameters' own place; else before a use, into a place that lives
                         // as long as the use
  std::vector<ComputeNode> readers;  // where not `updated`: the first compute that reads what is gathered, one of each
                                     // device group that has one
};
enum class Reduced : uint8_t { kBucket, kCount, kLoss, kDropped, kNorm };
struct AllReduceNode {
  Reduced what = Reduced::kBucket;
  BucketId bucket;
  ChunkId chunk;  // kCount: the chunk whose counts are summed
};
struct UpdateNode {
  BucketId bucket;
};
using NodePayload = std::variant<ComputeNode, StepNode, TransferNode, AllReduceNode, UpdateNode, ReduceScatterNode,
                                 AllGatherNode, ExchangeNode>;
// The chunk, pass and microbatch of a compute or an exchange, null for others.
const ComputeNode* chunk_pass(const NodePayload& payload);

struct Node {
  NodePayload payload;
  GroupId group;
  uint32_t stream = 0;  // Dag::streams
  ProvId prov;
};

enum class EdgeKind : uint8_t { kData, kOrder };
struct Edge {
  NodeId from, to;
  EdgeKind kind = EdgeKind::kData;
  diag::Span span;  // of the directive that made an order edge
};

// The groups of an expert shard, which partition the data group of its chunks.
struct ExpertGroups {
  std::vector<std::vector<int32_t>> groups;
  uint32_t stream = 0;
  ProvId prov;
};

// What the members of a team keep one part of each, instead of the whole; each level includes the ones before.
enum class Sharded : uint8_t { kNothing, kOptimizer, kGradients, kParameters };
// How long gathered parameters live: one compute, a microbatch's forward to the end of its backward, the step.
enum class Residency : uint8_t { kUse, kMicrobatch, kStep };

// The gradient of one parameter as used by one region. Where the region runs on several device groups, by microbatch,
// `group` is all of them together.
struct Accumulator {
  uint32_t parameter = 0;       // index into Graph::parameters
  ChunkId chunk;                // the region's first chunk that adds to it; its backward is the last of them
  std::vector<ChunkId> chunks;  // all of them
  GroupId group;
  uint32_t use = 0;  // position among the parameter's accumulators
  BucketId bucket;
  int64_t offset = 0;  // bytes, inside the bucket
};
struct Bucket {
  std::string name;
  GroupId group;
  std::vector<std::vector<int32_t>>
      teams;  // partition of the group: who sums with whom; positions are the order of the sum
  std::vector<AccumulatorId> accumulators;
  int64_t bytes = 0;  // a multiple of the team's size where anything is sharded
  Sharded sharded = Sharded::kNothing;
  Residency residency = Residency::kUse;
  int32_t prefetch = 1;                    // computes ahead of the reader
  uint32_t stream = 0, gather_stream = 0;  // of reductions, of gathers
  ProvId prov;
};

// One crossing of the model graph, as edges need it.
struct ChunkCrossing {
  ChunkId from, to;
  Pass pass = Pass::kForward;
  ValueId value;
};

// How the gradients of a chunk's parameters are reduced and updated.
struct Replication {
  int64_t bucket_bytes = -1;               // -1: no bound; 0: a bucket per parameter
  uint32_t stream = 0, gather_stream = 0;  // of reductions, of gathers
  Sharded sharded = Sharded::kNothing;
  Residency residency = Residency::kUse;
  int32_t prefetch = 1;
  ProvId prov;
  friend bool operator==(const Replication&, const Replication&) = default;
};

struct Dag {
  std::vector<Chunk> chunks;
  std::vector<ChunkCrossing> crossings;
  int32_t num_microbatches = 1;
  bool split = false;                           // a split gave the MB tag
  std::vector<std::vector<GroupId>> placement;  // [chunk][microbatch]
  std::vector<uint32_t> chunk_stream;           // [chunk]: stream of the messages it sends
  std::map<std::tuple<uint32_t, Pass, int32_t>, uint32_t>
      streams_of_compute;                     // (chunk, pass, microbatch) -> stream, where not 0
  std::vector<Replication> replication;       // [chunk]
  std::vector<bool> backward_split;           // [chunk]: its backward is an input part and a weight part
  std::vector<std::vector<bool>> recomputed;  // [chunk][microbatch]: its backward repeats the forward, unlike that of
                                              // others; empty where all are alike
  std::vector<ProvId> chunk_prov;             // [chunk]: the directive that placed it
  std::vector<DeviceGroup> groups;
  std::vector<std::string> streams;  // [0] = "compute"
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<Accumulator> accumulators;
  std::vector<std::vector<AccumulatorId>> parameter_uses;  // [parameter] in use order
  std::vector<Bucket> buckets;
  std::vector<ExpertGroups> expert_groups;  // Chunk::shard and Parameter::shard index it
  std::vector<ChunkId> loss_chunks;         // chunks that add to the step's loss, ascending
  std::vector<ChunkId> dropping_chunks;     // chunks that add to its number of dropped rows, ascending
  Provenance provenance;
  // [chunk][pass][microbatch] -> node, invalid where the chunk has no such pass.
  std::vector<std::array<std::vector<NodeId>, kNumPasses>> compute;
  std::vector<NodeId> order;  // a linear extension, set by order_nodes
  int32_t world_size = 1;

  // The stream that a compute runs on: what a `stream` directive says, else 0.
  uint32_t compute_stream(size_t chunk, Pass pass, int32_t microbatch) const;
  NodeId add_node(NodePayload payload, GroupId group, uint32_t stream, ProvId prov);
  void add_edge(NodeId from, NodeId to, EdgeKind kind = EdgeKind::kData, diag::Span span = {});
  GroupId intern_group(const std::vector<int32_t>& ranks);
  uint32_t intern_stream(const std::string& name);
  // "F of PP0, microbatch 3": for messages.
  std::string describe(NodeId node) const;
  // The accumulator of a parameter for a chunk's region, invalid where none.
  AccumulatorId find_accumulator(uint32_t parameter, ChunkId chunk) const;
  // The device groups that a chunk runs on, each once, by id.
  std::vector<GroupId> groups_of(ChunkId chunk) const;
  // How many microbatches before this one run on the same group: one of each group with equal numbers can be
  // communicated at once.
  int32_t round_of(ChunkId chunk, int32_t microbatch) const;
  bool has_member(GroupId group, int32_t rank) const;
  // Whether the chunk has two programs for a pass, and this microbatch runs the second.
  bool repeats(ChunkId chunk, int32_t microbatch) const {
    const std::vector<bool>& row = recomputed[chunk.index];
    return !row.empty() && row[microbatch];
  }
  // What directives said of chunks, where some became one: [chunk] -> the fused one, which has what its first member
  // has. Before build_dag.
  void fuse_chunks(const std::vector<ChunkId>& into);
  // The expert group of a shard that holds the rank.
  const std::vector<int32_t>& expert_group_of(int32_t shard, int32_t rank) const;
  // The team of a bucket that holds the rank.
  const std::vector<int32_t>& team_of(const Bucket& bucket, int32_t rank) const;
};
// "C", "F", "B"; of a split backward "BI" and "BW".
std::string_view pass_name(Pass pass, bool backward_split);

}  // namespace piper::ir
