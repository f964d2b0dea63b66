// What a timeline says: where each rank's time goes, and which instructions the step waits for. Used by piper-plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/timeline/causes.h"
#include "schemas/timeline/timeline.h"

namespace piper::timeline {

// For a loaded rank, in the unit of the timeline; they add up to its step.
struct RankTime {
  double busy = 0;           // a run or an update goes on
  double communication = 0;  // none does, but a message or a collective of the rank is on its way: exposed
  double waiting = 0;        // neither: it waits for other ranks, or is done
};
std::vector<RankTime> rank_times(const plan::Bundle& bundle, const Timeline& timeline);

// From the step's end back through what each instruction waited for last. In order of time. Pieces do not overlap; what
// is missing between them is time of the host.
std::vector<CriticalPiece> critical_path(const plan::Bundle& bundle, const Timeline& timeline);

struct LineTime {
  std::string line;  // key of the provenance: "s.yaml:3:5"
  Kind kind = Kind::kRun;
  double time = 0;
};
// The critical path by line of the strategy and kind of instruction, the longest first.
std::vector<LineTime> by_line(const plan::Bundle& bundle, const std::vector<CriticalPiece>& path);

}  // namespace piper::timeline
