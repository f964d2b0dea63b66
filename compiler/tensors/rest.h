// What of the values between products that are cut lies in parts along the sequence: "at rest" (Korthikanti et al.,
// "Reducing activation recomputation in large transformer models" (2022)). Nothing is changed. Used by
// passes/partition_tensors.
//
// The sequence is axis 1 of the model's inputs, and is followed from there by the map of axes (ir/axis_map.h). A value
// is in parts from an embedding, an input of numbers or a sum of shares on, as long as each operator works on every
// place of the sequence by itself; what is beside it is read in parts, too. Operators of the columns read the whole
// sequence, of which the gradients are shares, and so do those that need it, whose gradients are the same at every
// place. Where it is cheaper, what leads to the latter is whole as well: the logits' product and not the logits.
// A parameter that is read beside parts has a share of its gradient at every place; all its readers are of that kind,
// or none. But where the others make terms of parameters alone, such as a penalty, the shares are added up first.
//
// Where experts are divided over the places, too (ChunkCut::experts), each place orders the rows of its own tokens, and
// sends these alone: rows in the order of experts are parts, of whichever tokens they are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/ir/chunks.h"
#include "compiler/tensors/follow_cuts.h"

namespace piper::tensors {

struct Rest {
  std::vector<PartAlong> part;  // [value]; of a share that is scattered, of its sum
  // An operator reads all of an operand of which there are parts.
  struct Read {
    ir::OpId op;
    uint32_t operand = 0;
    PartAlong along;
  };
  std::vector<Read> inside;            // whole, by operators of the columns
  std::vector<Read> whole;             // whole, by operators that all places run alike
  std::vector<OwnRead> own;            // the place's part of what is whole
  std::vector<Read> entered;           // whole, by operators on parts, with a gradient that is added up at once
  std::vector<ir::ValueId> scattered;  // shares, each place keeps a part of the sum
  std::vector<ir::ValueId> summed;     // sums over the sequence: shares of the whole
  std::vector<std::pair<ir::ValueId, ir::ChunkId>> shared;  // parameters with shares of gradients
  std::vector<std::pair<ir::ValueId, PartAlong>> outputs;   // of the model, in parts
  std::vector<std::pair<ir::OpId, int64_t>> uneven;         // what would begin one, and how long its sequence is
  std::vector<std::pair<ir::ValueId, ir::OpId>> mixed;      // parameters, and what reads them beside no parts
  std::vector<ir::OpId> stuck;  // of experts over the places: what would need the tokens of others
};

// `chunks`: those of which the sequence is cut.
Rest find_rest(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, const FollowedCuts& columns);

}  // namespace piper::tensors
