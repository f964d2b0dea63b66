#include "schemas/plan/life.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace piper::plan {

Fullest fullest(std::span<const Life> lives) {
  std::vector<std::pair<uint32_t, int64_t>> changes;
  changes.reserve(2 * lives.size());
  for (const Life& life : lives) {
    changes.emplace_back(life.first, life.bytes);
    changes.emplace_back(life.end, -life.bytes);
  }
  std::sort(changes.begin(), changes.end());
  Fullest most;
  int64_t live = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    live += changes[i].second;
    const bool last_here = i + 1 == changes.size() || changes[i + 1].first != changes[i].first;
    if (last_here && live > most.bytes) most = {changes[i].first, live};
  }
  return most;
}

}  // namespace piper::plan
