// The training DAG: every compute and every communication of one step on the whole cluster. A node lives on a device
// *group*, so that the DAG does not grow with replicas. Passes of the phases `build` and `order` write it; the emitter
// projects it onto ranks. There are few kinds of nodes: a pass of a chunk, a collective, a message, work of the step,
// an update; what a communication is about is its operand. The DAG knows chunks, phases and microbatches; it
// has no kernels and no addresses.
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
#include "compiler/ir/step_scalars.h"

namespace piper::ir {

// A chunk in one phase on one microbatch.
struct ComputeNode {
  ChunkId chunk;
  Phase phase = Phase::kForward;
  int32_t microbatch = 0;
};

// What a communication is about.
struct ValueOperand {  // a value of the model graph, of either direction
  ComputeNode at;      // the pass that makes it
  ValueId value;       // a root
};
struct GradientOperand {  // the gradients of a bucket
  BucketId bucket;
  std::vector<int32_t> microbatches;  // one of each device group that the bucket's chunks run on, while it has some;
                                      // empty: once per step
};
struct ParameterOperand {  // the parameters of a bucket
  BucketId bucket;
  std::vector<ComputeNode> readers;  // the first compute that reads what is gathered, one of each device group that has
                                     // one; empty: in the parameters' own place, after the update
};
struct UseOperand {  // the gradient of one use of a tied parameter
  AccumulatorId use;
};
struct ScalarOperand {
  ScalarId scalar;
};
using Operand = std::variant<ValueOperand, GradientOperand, ParameterOperand, UseOperand, ScalarOperand>;

// The members of a team of `teams` communicate. Every one ends with: the whole sum of an all_reduce, its part of the
// sum of a reduce_scatter, the whole of an all_gather, its part of everyone's of an all_to_all.
enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll };
struct CollectiveNode {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Operand what;
  TeamsId teams;
  plan::SumTypes types;                               // of what moves: `data`; the others where it reduces
  plan::Reduction reduction = plan::Reduction::kSum;  // where it reduces
};
// One message: every member of `to` that does not hold the operand yet receives it from its peer in the node's group.
struct TransferNode {
  Operand what;  // a value, a use's gradient or a scalar
  GroupId to;
};

// Work done once per step on everything that the device has.
struct TakeScalar {  // what forwards added up becomes the step's scalar; they start the next step at zero
  ScalarId scalar;
};
struct FinishCounts {  // 1/count of every mean loss of the chunk
  ChunkId chunk;
};
struct CombineUses {  // gradients of the uses of a tied parameter are added up
  uint32_t parameter = 0;
};
struct MeasureGradients {  // squared norms of the gradients that a device owns
  ScalarId norms;
};
struct ClipGradients {
  ScalarId norms;        // read
  ScalarId norm, scale;  // the norm of all, and the factor on gradients that follows from it
};
struct AdvanceOptimizer {};  // the number of the optimizer's step is one more, unless the step is skipped
struct CheckGradients {      // how many of the gradients that a device owns have an element that is not finite
  ScalarId overflow;
};
struct UnscaleGradients {  // the factor on gradients that takes the loss scale back
  ScalarId scale;
};
using StepWork = std::variant<TakeScalar, FinishCounts, CombineUses, MeasureGradients, ClipGradients, AdvanceOptimizer,
                              CheckGradients, UnscaleGradients>;
struct StepNode {
  StepWork work;
};
struct UpdateNode {
  BucketId bucket;
};

using NodePayload = std::variant<ComputeNode, CollectiveNode, TransferNode, StepNode, UpdateNode>;
// The chunk, pass and microbatch of a compute, or of a collective of a value, which is all that its chunk does; null
// for others.
const ComputeNode* chunk_pass(const NodePayload& payload);

struct Node {
  NodePayload payload;
  GroupId group;
  uint32_t stream = 0;  // Distribution::streams
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
  std::vector<StepScalar> scalars;  // the first ones are the rows of step_sums
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
