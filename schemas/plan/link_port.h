// A rank's way into the network, or out of it: what goes through it goes one after the other. Used by the simulation of
// a plan (schemas/timeline) and by links of a stated speed (runtime/hal/link_delay.h), which have to agree.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>

namespace piper::plan {

// `Time`: a number, in any unit. Not thread-safe.
template <class Time>
class LinkPort {
 public:
  // Takes the first free time of that length that begins at `earliest` or behind it; when it ends. Whoever asks late,
  // for what went through long ago, finds the times that were free then.
  Time take(Time earliest, Time length) {
    if (length <= 0) return earliest;
    auto next = taken_.upper_bound(earliest);
    if (next != taken_.begin()) earliest = std::max(earliest, std::prev(next)->second);
    for (; next != taken_.end() && next->first < earliest + length; ++next) earliest = next->second;
    const Time end = earliest + length;
    const auto before = next == taken_.begin() ? taken_.end() : std::prev(next);
    const bool joins = before != taken_.end() && before->second == earliest;
    const auto own = joins ? before : taken_.emplace_hint(next, earliest, end);
    own->second = end;
    if (next != taken_.end() && next->first == end) {
      own->second = next->second;
      taken_.erase(next);
    }
    return end;
  }
  // Times that end before count as free from now on.
  void forget(Time before) {
    while (!taken_.empty() && taken_.begin()->second < before) taken_.erase(taken_.begin());
  }

 private:
  std::map<Time, Time> taken_;  // begin -> end, apart from each other
};

}  // namespace piper::plan
