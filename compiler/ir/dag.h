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
#include "compiler/ir/distribution.h"
#include "compiler/ir/ids.h"
#include "compiler/ir/state_layout.h"

namespace piper::ir {

using NodeId = Id<struct NodeTag>;

// A chunk in one phase on one microbatch.
struct ComputeNode {
  ChunkId chunk;
  Phase phase = Phase::kForward;
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
  Phase phase = Phase::kForward;
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

struct Dag {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  // [chunk][phase][microbatch] -> node, invalid where the chunk has no such work.
  std::vector<std::array<std::vector<NodeId>, kNumPhases>> compute;
  std::vector<NodeId> order;  // a linear extension of all nodes; empty before order_nodes

  NodeId add_node(NodePayload payload, GroupId group, uint32_t stream, ProvId prov);
  void add_edge(NodeId from, NodeId to, EdgeKind kind = EdgeKind::kData, diag::Span span = {});
  NodeId node_of(ChunkId chunk, Phase phase, int32_t microbatch) const {
    return compute[chunk.index][static_cast<size_t>(phase)][microbatch];
  }
};

}  // namespace piper::ir
