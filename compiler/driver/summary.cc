#include "compiler/driver/summary.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "schemas/base/byte_text.h"
#include "schemas/timeline/priced.h"
#include "schemas/timeline/timeline.h"

namespace piper::driver {
namespace {

std::vector<plan::RankSummary>::const_iterator largest(const plan::Bundle& bundle) {
  const std::vector<plan::RankSummary>& ranks = bundle.manifest.ranks;
  return std::max_element(ranks.begin(), ranks.end(),
                          [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
}

struct Step {
  double bubble = 0;   // timeline::bubble
  double time_us = 0;  // on a machine
};

Result<Step> played(const plan::Bundle& bundle, const std::optional<timeline::Machine>& machine) {
  if (!machine) {
    PIPER_ASSIGN(const timeline::Kinds kinds, timeline::kinds_of(bundle));
    return Step{timeline::bubble(kinds, timeline::simulate(kinds, {}))};
  }
  PIPER_ASSIGN(const timeline::Kinds kinds, timeline::kinds_on(bundle, *machine));
  const timeline::Timeline step = timeline::simulate_on(kinds, timeline::Priced(kinds, *machine));
  return Step{timeline::bubble(kinds, step), step.step};
}

}  // namespace

int64_t peak_bytes(const plan::Bundle& bundle) { return largest(bundle)->peak_bytes; }

Result<std::string> summary(const std::string& directory, const plan::Bundle& bundle,
                            const std::optional<timeline::Machine>& machine, bool too_large) {
  PIPER_ASSIGN(const Step step, played(bundle, machine));
  const size_t ranks = bundle.manifest.ranks.size();
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, " of memory (rank %td), idle %.0f %% of a step",
                largest(bundle) - bundle.manifest.ranks.begin(), 100 * step.bubble);
  std::string line = directory + ": " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + ", at most " +
                     human_bytes(peak_bytes(bundle)) + numbers;
  if (machine) {
    std::snprintf(numbers, sizeof numbers, ", %.4g ms a step on ", step.time_us / 1000);
    line += numbers + machine->name;
  }
  if (too_large) line += ", which has " + human_bytes(static_cast<int64_t>(machine->memory_bytes)) + ": does not fit";
  return line + "\n";
}

}  // namespace piper::driver
