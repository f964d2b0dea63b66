// What every line of a strategy costs in a step, simulated or measured. Used by `piper-plan report`. Which line made an
// instruction its provenance names; where several did, the first of them has it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/timeline/causes.h"
#include "schemas/timeline/timeline.h"

namespace piper::timeline {

// In the unit of the timeline; except for `on_path` and `bytes`, sums over all loaded ranks.
struct LineCost {
  std::string line;       // "s.yaml:3:5"; "" for what no line made
  std::string directive;  // "place", "optimizer"; of several that are there the first
  double on_path = 0;     // of the critical path
  // Time of streams, so that a moment in which two streams of a rank work counts twice.
  double kernel = 0;      // runs and updates
  double message = 0;     // sends and receives, once both ends are there
  double collective = 0;  // once all members are there
  double wait = 0;        // for an event, or for the other ends of a transfer
  // Time of ranks: their transfers are on the way and nothing computes; of several at a time each has an equal part.
  // The sum over lines is that of RankTime::communication (assess.h).
  double exposed = 0;
  // Time of ranks in which nothing computes, by what the rank's next run waited for at that moment (causes.h), on
  // whatever rank that was; after a rank's last run, what the step's end waited for.
  double lost = 0;
  int64_t bytes = 0;  // that its instructions send
};

struct LineCosts {
  std::vector<LineCost> lines;  // by lost time, the largest first; of equal ones in the order of their names
  double unexplained = 0;       // lost time in which nothing that was waited for went on: the host, or the executor
};
// The lost times of all lines and what is unexplained add up to what rank_times (assess.h) has as communication and
// waiting. `path`: of critical_path.
LineCosts line_costs(const plan::Bundle& bundle, const Timeline& timeline, const std::vector<CriticalPiece>& path);

}  // namespace piper::timeline
