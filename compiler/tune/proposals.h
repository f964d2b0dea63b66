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

// Passes in other orders by list scheduling, with halves of backwards and slots that overlap, as many forwards in
// flight or more. None where pass_table.h finds no table.
std::vector<Proposal> moved_passes(const Trial& trial);
// The same with fewer forwards in flight; none where everything fits.
std::vector<Proposal> fewer_in_flight(const Trial& trial);
// One change between neighbours of a row: two slots exchanged, joined, or one taken apart. The sequence of passes of
// one kind of a stage is kept.
std::vector<Proposal> neighbours(const Trial& trial);
// bucket_size of all replicates, by powers of four: 16 times to a 1024th.
std::vector<Proposal> buckets(const Trial& trial);
// prefetch of all replicates that shard parameters, one more and one less.
std::vector<Proposal> prefetches(const Trial& trial);
// Where everything fits: a recomputation left out, or one of fewer operators, modules, layers, stages or microbatches.
// Over the limit: a recomputation of more, or a new one, of everything and of the stages that are on ranks over the
// limit; each of all operators, of those of a kind, and of each module that layers repeat.
std::vector<Proposal> recomputations(const Trial& trial);
// Over the limit: replicas keep shards of what they keep whole, by the levels of `replicate`.
std::vector<Proposal> shardings(const Trial& trial);

}  // namespace piper::tune
