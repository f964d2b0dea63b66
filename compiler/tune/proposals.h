// What tune.h may try with a strategy. Each function proposes changes of one kind, in a fixed order; none of them knows
// whether a change is good.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/tune/trial.h"

namespace piper::tune {

struct Proposal {
  std::string what;  // for the comment: "bucket_size 25 -> 6.25"
  // The strategy's text with the change, and with `comment` before it.
  std::function<Result<std::string>(const std::string& comment)> edit;
};

// Passes in other orders by list scheduling, with halves of backwards and slots that overlap, more or, over the limit,
// fewer forwards in flight. None where pass_table.h finds no table.
std::vector<Proposal> moved_passes(const Trial& trial);
// One change between neighbours of a row: two slots exchanged, joined, or one taken apart. The sequence of passes of
// one kind of a stage is kept.
std::vector<Proposal> neighbours(const Trial& trial);
// bucket_size of all replicates, by powers of four: 16 times to a 1024th.
std::vector<Proposal> buckets(const Trial& trial);
// prefetch of all replicates that shard parameters, one more and one less.
std::vector<Proposal> prefetches(const Trial& trial);
// Recomputation left out; over the limit also one of a stage, or of everything where there are no stages.
std::vector<Proposal> recomputations(const Trial& trial);

}  // namespace piper::tune
