// Finds values that are read only as slices which together cover them once: the parts of a split.
// Used by differentiate, which joins the gradients of such parts by one cat instead of adding tensors
// that are mostly zeros. (x + 0 is x, so that the sums are the same numbers.)
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace piper::autodiff {

struct Split {
  int64_t dim = 0;
  std::vector<ir::OpId> parts;  // the slices, by ascending start; empty = the value is not split
  ir::OpId first;               // of the parts, the first in op order
  ir::ChunkId chunk;            // joins the gradients: that of the parts, or where they are of several, of the value
};
// [value]. Parts are forward ops, of a parameter of one chunk; uses that pass no gradient do not count.
std::vector<Split> find_splits(const ir::Graph& graph);

}  // namespace piper::autodiff
