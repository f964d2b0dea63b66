// Which products of a graph can be cut by their output features, and what that makes of every value up to the product
// that sums over them again. Nothing is changed. Used by passes/partition_tensors.
//
// The output features of a seed, a `linear` with a weight of its own, are followed through the graph by what operators
// do along their axes (ir/axis_map.h). A part stays a part where an operator works on each element of the axis alone,
// and becomes a share where one sums over it. All else needs the whole: then none of the seeds that lead there can be
// cut, and the rest is followed again without them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/chunks.h"

namespace piper::tensors {

// What may be cut in a chunk.
struct ChunkCut {
  int32_t cut = -1;    // index into Distribution::cuts; -1: nothing
  int64_t places = 1;  // parts
};

// An operator where some seeds cannot go on.
struct Obstacle {
  ir::OpId op;
  std::string why;      // goes on from "the operator ..."
  bool uneven = false;  // an extent that the places do not divide
  std::vector<ir::OpId> seeds;
};

struct FollowedCuts {
  std::vector<int32_t> part;  // [value] the axis of which a place has a part; -1: it has the whole, or a share
  std::vector<bool> share;    // [value]
  struct Weight {
    ir::ValueId parameter;
    int32_t axis = 0;
    ir::ChunkId chunk;
  };
  std::vector<Weight> weights;  // parameters that are cut, in the order of their operators
  // What an operator on parts reads whole, and has a gradient: (op, operand).
  std::vector<std::pair<ir::OpId, uint32_t>> entered;
  std::vector<ir::OpId> seeds;      // that are cut
  std::vector<Obstacle> obstacles;  // of the others
};

// `seeds`: linear operators in chunks that are cut, ascending.
FollowedCuts follow_cuts(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, std::vector<ir::OpId> seeds);

// Whether the operator is a product by a parameter [out, in] that nothing else reads, which a place can have a part of.
bool can_be_seed(const ir::Graph& graph, const ir::Uses& uses, const ir::Op& op);

}  // namespace piper::tensors
