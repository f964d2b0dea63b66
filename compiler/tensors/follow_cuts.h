// Which products of a graph can be cut by their output features, and what that makes of every value up to the product
// that sums over them again. Nothing is changed. Used by passes/partition_tensors.
//
// The output features of a seed, a `linear` with a weight of its own, are followed through the graph by what operators
// do along their axes (ir/axis_map.h). A part stays a part where an operator works on each element of the axis alone,
// and becomes a share where one sums over it. All else needs the whole: then none of the seeds that lead there can be
// cut, and the rest is followed again without them. Keys and values of fewer heads than there are places are whole
// where queries are parts: each place reads the heads that its queries need, and its own of a bias of scores. A weight
// that makes several things at once (queries, keys and values) has as many segments, equal or not, and each place a
// part of each: slices of the result, or an axis that numbers them, say so. Experts that are divided over the places
// themselves are whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/axis_map.h"
#include "compiler/ir/chunks.h"

namespace piper::tensors {

// What may be cut in a chunk.
struct ChunkCut {
  int32_t cut = -1;      // index into Distribution::cuts; -1: nothing
  int64_t places = 1;    // parts
  bool experts = false;  // its experts are divided over these places, too: each place sends the rows of its own tokens
};

// The axis along which a place has a part of each of several segments.
struct PartAlong {
  int32_t axis = -1;  // -1: a place has the whole, or a share
  int32_t segments = 1;
  std::vector<int64_t> extents = {};  // of the segments, where these are not equal
  friend bool operator==(const PartAlong&, const PartAlong&) = default;
};

// An operator where some seeds cannot go on.
struct Obstacle {
  ir::OpId op;
  std::string why;      // goes on from "the operator ..."
  bool uneven = false;  // an extent that the places do not divide
  std::vector<ir::OpId> seeds;
  std::vector<int64_t> extents = {};  // with segments of these extents of each seed it might
};

// An operator reads the place's part of an operand that is whole.
struct OwnRead {
  ir::OpId op;
  uint32_t operand = 0;
  PartAlong along;
  bool trained = false;  // it has a gradient, of which the places have parts
};

struct FollowedCuts {
  std::vector<PartAlong> part;  // [value]
  std::vector<bool> share;      // [value] of a sum, which is added up there
  std::vector<bool> carried;    // [value] of a share, or read by columns: what is made before a sum, or after an entry
  struct Weight {
    ir::ValueId parameter;
    PartAlong along;
    ir::ChunkId chunk;
    bool sums = false;   // of a product that sums over the axis
    bool table = false;  // with the rows of a vocabulary
  };
  std::vector<Weight> weights;  // parameters that are cut, in the order of their operators
  // What an operator on parts reads whole, and has a gradient: (op, operand).
  std::vector<std::pair<ir::OpId, uint32_t>> entered;
  // What all places have alike, and an operator on parts reads the place's part of.
  std::vector<OwnRead> own;
  // Parameters that operators on parts read whole: their gradients are shares.
  std::vector<std::pair<ir::ValueId, ir::ChunkId>> shared;
  std::vector<ir::OpId> losses;     // that take parts of the classes
  std::vector<Obstacle> obstacles;  // of seeds that are not cut
};

// `seeds`: linear operators in chunks that are cut, ascending. `logits`: of further ones, whose weights others read,
// too, and are left to the caller; their features may be more than the places can share equally, and are followed to
// the losses that take them as classes.
FollowedCuts follow_cuts(const ir::Graph& graph, const std::vector<ChunkCut>& chunks,
                         const std::vector<ir::OpId>& seeds, const std::vector<ir::OpId>& logits = {});

// [value] whether a gradient of the loss may reach a trained parameter by it.
std::vector<bool> find_gradients(const ir::Graph& graph);
// [value] whether it depends on the model's inputs, or on experts that not all ranks have; others are the same
// everywhere.
std::vector<bool> find_of_samples(const ir::Graph& graph);

// Whether the axis of an operator is the one that is cut where an operand, or a result, is: the factor inside of the
// segments, or all of it.
bool is_there(const ir::AxisPlace& place, const PartAlong& part);
const ir::OpAxis* axis_of_operand(const ir::AxisMap& map, uint32_t operand, const PartAlong& part);  // null: none

// A parameter of one reader, which reads it once, that can be cut.
bool is_parameter_of_one(const ir::Graph& graph, const ir::Uses& uses, ir::ValueId v);

// The parameter of a product (products.h), which may be permuted: nothing else reads it, so that a place can have a
// part of it. Invalid where there is none.
ir::ValueId weight_of(const ir::Graph& graph, const ir::Uses& uses, const ir::Op& op);

}  // namespace piper::tensors
