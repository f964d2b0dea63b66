// Where shares are added up, and where whole values enter, after follow_cuts: a sum of products may pass operators that
// are linear in it, and is smaller after some, as after that over the experts of a token. So is what enters before a
// token is read once for each of its experts. Nothing is changed but what was found.
#pragma once

#include "compiler/tensors/follow_cuts.h"

namespace piper::tensors {

// A share, of a product without a bias, is added up at the smallest value that is linear in it alone, the first of
// equals and no output or loss, and what such operators read beside it enters; a value enters at the smallest that it
// is linear in. What lies between is `carried`.
void carry_shares(const ir::Graph& graph, const std::vector<ChunkCut>& chunks, FollowedCuts& found);

}  // namespace piper::tensors
