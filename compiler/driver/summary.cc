#include "compiler/driver/summary.h"

#include <algorithm>
#include <cstdio>

#include "schemas/timeline/priced.h"
#include "schemas/timeline/timeline.h"

namespace piper::driver {

Result<std::string> summary(const std::string& directory, const plan::Bundle& bundle,
                            const std::optional<timeline::Machine>& machine) {
  PIPER_ASSIGN(const timeline::Timeline step, timeline::simulate(bundle, {}));
  double idle = 0;
  for (size_t p = 0; p < bundle.ranks.size(); ++p) idle += timeline::idle_share(step, p);
  const std::vector<plan::RankSummary>& ranks = bundle.manifest.ranks;
  const auto largest = std::max_element(ranks.begin(), ranks.end(),
                                        [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, ": %zu %s, at most %.1f MiB of memory (rank %zu), idle %.0f %% of a step",
                ranks.size(), ranks.size() == 1 ? "rank" : "ranks",
                static_cast<double>(largest->peak_bytes) / (1024 * 1024), static_cast<size_t>(largest - ranks.begin()),
                100 * idle / static_cast<double>(std::max<size_t>(bundle.ranks.size(), 1)));
  std::string line = directory + numbers;
  if (machine) {
    PIPER_ASSIGN(const timeline::Timeline priced, timeline::simulate_on(bundle, timeline::Priced(bundle, *machine)));
    std::snprintf(numbers, sizeof numbers, ", %.4g ms a step on ", priced.step / 1000);
    line += numbers + machine->name;
  }
  return line + "\n";
}

}  // namespace piper::driver
