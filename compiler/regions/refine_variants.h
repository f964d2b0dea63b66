// Cuts the chunks of every variant of the model in the same way, and carries over what is said of them. Not a pass:
// what passes that cut chunks share.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::regions {

// Error P0512: variants are not of one structure.
inline Status other_structure(const ir::ModelVariant& a, const ir::ModelVariant& b, diag::Diagnostics& diags) {
  return diags.error("P0512") << "the model has another structure for pieces of "
                              << std::min(a.local_batch, b.local_batch) << " samples than for "
                              << std::max(a.local_batch, b.local_batch) << "; use device groups of one size";
}

// `cut(ChunkedGraph&)` cuts one variant and returns [new chunk] -> the chunk it was cut from, or an error. The variant
// of the fewest samples comes first: what is refused there is refused for all.
template <class Cut>
Status refine_variants(ir::Module& module, diag::Diagnostics& diags, const Cut& cut) {
  std::optional<std::vector<ir::ChunkId>> from;
  for (size_t v = module.variants.size(); v-- > 0;) {
    PIPER_ASSIGN(std::vector<ir::ChunkId> cut_from, cut(module.variants[v].chunked));
    if (from && *from != cut_from) return other_structure(module.variants[v], module.variants.back(), diags);
    from = std::move(cut_from);
  }
  module.refine_chunks(*from);
  return Status();
}

}  // namespace piper::regions
