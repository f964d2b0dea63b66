// What a rank has of each value of a graph in which parameters are cut: the whole, its place's part, or an addend.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "schemas/plan/plan.h"

namespace piper::ir {

struct ValueSpread {
  plan::Spread spread = plan::Spread::kSame;
  int32_t cut = -1;  // ParameterCut::cut; -1: kSame
  friend bool operator==(const ValueSpread&, const ValueSpread&) = default;
};

// [value], of either direction. A share is what an all_reduce or a reduce_scatter sums, or is added, cast or viewed for
// it, what is added to a gradient that is one, and what products make that sum over an axis of their weight that is
// cut, with all that is made of it before a sum; a part is what is made of parts, the gradient of one too, or taken by
// own_part; an all_reduce and an all_gather make what is the same at every place. What an exchange across places brings
// is of all places' rows, as no other rank has them, and what is sent back is a part again.
std::vector<ValueSpread> find_spreads(const Graph& graph);

}  // namespace piper::ir
