// What a difference between two bundles means: figures of a step, and instructions that came, went or moved, by line of
// the strategy. Beside it `piper-plan diff` shows lines of files (diff.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/timeline.h"

namespace piper::tools {

// For one bundle.
struct StepFigures {
  double step = 0;         // in Meaning::unit
  double idle = 0;         // share of all ranks' step in which nothing runs, 0 to 1
  int64_t peak_bytes = 0;  // of the rank that needs most, predicted
  int64_t sent_bytes = 0;  // by all ranks
  int64_t instructions = 0;
};
// Instructions of all ranks that one place of the strategy made. A moved one is in both plans of its rank, on the same
// stream, but not in the same order beside the others: it lies outside of a longest common subsequence.
struct LineChange {
  std::string line;  // as "place at s.yaml:3:5, made by insert_transfers"; where it is elsewhere now, both places
  int64_t removed = 0, added = 0, moved = 0;
};
// How long a pass takes: by the products that its calls do, so that a step of more microbatches or more stages is
// compared with one of fewer; by the prices of a machine; or as many units for each pass of a stage.
struct StepCosts {
  std::optional<timeline::Costs> units;
  std::string target, kernel_times;  // files; "": none
};
struct Meaning {
  std::string unit;                   // of the step's length, for people
  const char* kind = "work";          // the same as one word: work, us, units
  std::vector<std::string> strategy;  // what was changed in it, in its own words; empty also where it was not found
  StepFigures a, b;
  std::vector<LineChange> lines;  // that changed, in the order of their names
  std::vector<int32_t> ranks;     // on which an instruction came, went or moved; ascending
};

// Needs bundles that verify() accepts; P0631 where messages do not match.
Result<Meaning> compare_steps(const plan::Bundle& a, const plan::Bundle& b, const StepCosts& costs);

std::string meaning_as_text(const Meaning& meaning);
std::string meaning_as_markdown(const Meaning& meaning);
// {"differs","strategy":[..],"unit","step":[a,b],"idle":[..],"peak_bytes":[..],"sent_bytes":[..],"instructions":[..],
//  "ranks":[..],"lines":[{"line","removed","added","moved"}]}
std::string meaning_as_json(const Meaning& meaning, bool differs);

}  // namespace piper::tools
