// A bundle with one rank for each kind of rank: what plays like the whole bundle and is as small as its plans differ.
// Ranks of a kind do the same work (schemas/plan/like_ranks.h) and always meet the same kinds (verify/fold_ranks.h).
// Where every rank has a device and ports of its own and ranks of a kind lie alike on nodes, all of them begin and end
// everything at the same times: a transfer of a kind begins when the kinds that it meets have come, and loads a port of
// each member as much as it loads the ports of the others of that member's kind.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/machine.h"
#include "schemas/verify/match.h"

namespace piper::timeline {

struct Kinds {
  // The whole bundle's manifest, programs and provenance; the first rank of each kind, with its own number, peers and
  // members, of which most are not there.
  plan::Bundle bundle;
  std::vector<int32_t> kind_of;    // [rank] -> index into bundle.ranks, or -1: its plan is not loaded
  std::vector<int64_t> num_ranks;  // [index into bundle.ranks] that it stands for
  verify::Matching matching;       // of bundle.ranks: who meets whom, a kind standing for all of its ranks
};

// Where transfers take no time, or the same time for all ranks of a kind. Where ranks cannot be folded each is a kind
// of its own. Fails as verify::match does.
Result<Kinds> kinds_of(const plan::Bundle& bundle);
// Where transfers go over the links of a machine.
Result<Kinds> kinds_on(const plan::Bundle& bundle, const Machine& machine);

}  // namespace piper::timeline
