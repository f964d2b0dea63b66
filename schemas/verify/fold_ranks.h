// A bundle with one rank for each kind of rank: ranks of a kind do the same work (like_ranks.h) and meet the same
// kinds; their communicators and channels lead to the ones that are there for their members and peers. What rules 1 to
// 4 say of it, and when its instructions begin and end at unit costs, holds of the whole bundle:
//
// All ranks of a kind have the same instructions. Folding asks that an end of a kind always leads to the same ends of
// the same other kinds: the n-th operation on a rank's end then is the n-th of those ends, whichever of their ranks it
// meets there, so that sizes and types, which instructions say, agree for all ranks where they agree for one. And play
// both bundles side by side: when an instruction of a kind has ended, it can have ended on all ranks of the kind. Of
// what meets nobody and waits for events of its own rank that is plain; of a message or a collective of the whole
// bundle all ends are of kinds whose instruction has begun, so they have begun on those ranks as well. So what plays to
// its end folded plays to its end.
//
// A refutation speaks of the bundle itself, with the ranks that it has: who finds one in a folded bundle looks there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::verify {

struct FoldedRanks {
  // For the manifest only what rules 1 to 4 and timelines at unit costs read; no placements; rank = kind.
  plan::Bundle bundle;
  std::vector<int64_t> num_ranks;                 // [kind]
  std::vector<int32_t> kind_of;                   // [index into the whole bundle's ranks]
  int64_t num_messages = 0, num_collectives = 0;  // of the whole bundle, where rules 1 and 2 hold
};
// None where ranks are missing, where there are as many kinds as ranks, and where ranks of a kind meet each other or
// ends that do not lead back. `apart`: [index into bundle.ranks]; ranks with different numbers are of different kinds.
std::optional<FoldedRanks> fold_ranks(const plan::Bundle& bundle, const std::vector<int32_t>& apart = {});

}  // namespace piper::verify
