// The ranks of cuts, and what these send each other, as texts and pictures of a plan show them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/timeline/timeline.h"

namespace piper::tools {

// Collectives of one step of a rank that there are for one reason.
struct CutCollectives {
  std::string kind, stream, line, why;  // "all_reduce", "tp:0,1", "s.yaml:5:5", "shares of .. meet .."
  int64_t times = 0;
  int64_t bytes = 0;  // of their whole data
};
// In the order of their first. Those of several layers are one entry, with "h.*.mlp" for "h.0.mlp".
std::vector<CutCollectives> cut_collectives(const plan::Bundle& bundle, const plan::RankPlan& plan);
// When those of a loaded rank end, ascending, each time once.
std::vector<double> cut_times(const plan::Bundle& bundle, size_t p, const timeline::Timeline& timeline);

// "[0, 1] [2, 3]", of many the first.
std::string groups_text(const plan::Cut& cut);
// "tp: ranks [0, 1] [2, 3] share samples" of each cut, "; " between them; "" where there is none.
std::string cuts_line(const plan::Manifest& manifest);

}  // namespace piper::tools
