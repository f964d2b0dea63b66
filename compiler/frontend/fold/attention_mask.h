// What a mask of attention says, as a form of the places of queries and keys, whatever operators it is made by. Used by
// fold; it changes nothing itself.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/frontend/fold.h"

namespace piper::frontend {

// What attention is over: scores [batch, heads, queries, keys].
struct Scores {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0;
};

// Values of the graph that the form of a mask may look through.
struct KnownValues {
  const ir::Graph& graph;
  std::function<ir::ValueId(ir::ValueId)> same;  // the value that it equals
  std::function<const std::optional<ConstantTensor>&(ir::ValueId)> constant;
};

// A vector that the mask reads by the place of a query or a key.
struct MaskVector {
  ir::ValueId value;     // [.., places], axes of extent 1 anywhere; integers or truth values
  bool batched = false;  // its first axis that is longer than 1 is the batch
};
struct AttentionMask {
  Form where;  // axis 0 the query, axis 1 the key; reads the vectors by their places in the list
  std::vector<MaskVector> vectors;
  int64_t places = 0;  // of the longest vector; others have one, the same for all places
};

// Where `mask`, which broadcasts to the scores, lets a query attend: bool: true attends; float: 0 does, -1e9 and below
// does not, finite numbers only where each query attends to the key of its own place. nullopt where it is no function
// of the two places and of such vectors, or of the sample or head otherwise.
std::optional<AttentionMask> attention_mask(const KnownValues& known, ir::ValueId mask, const Scores& scores);

}  // namespace piper::frontend
