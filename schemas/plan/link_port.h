// A rank's way into the network, or out of it, which everything that goes through it shares. Used by the simulation of
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
  // When something that comes at `earliest` and takes `length` alone is through: it has half of the port while
  // something else goes through, so that of two that come at once one of A takes A + min(A, B) beside one of B. What
  // came before was given its end already, and keeps it. Whoever asks late, for what went through long ago, finds the
  // port as it was.
  Time take(Time earliest, Time length) {
    if (length <= 0) return earliest;
    const Time end = end_of(earliest, length);
    fill(earliest, length);
    return end;
  }
  // Times that end before count as free from now on.
  void forget(Time before) {
    while (!taken_.empty() && taken_.begin()->second < before) taken_.erase(taken_.begin());
  }

 private:
  using Runs = std::map<Time, Time>;  // begin -> end, apart from each other

  // The first run that ends after the time.
  typename Runs::iterator run_at(Time time) {
    auto run = taken_.upper_bound(time);
    if (run != taken_.begin() && std::prev(run)->second > time) --run;
    return run;
  }
  Time end_of(Time time, Time left) {
    while (true) {
      const auto run = run_at(time);
      if (run == taken_.end()) return time + left;
      if (run->first > time) {
        const Time alone = run->first - time;
        if (left <= alone) return time + left;
        left -= alone;
        time = run->first;
      } else {
        const Time beside = run->second - time;
        if (left <= beside) return time + left + left;
        left -= beside;
        time += beside + beside;
      }
    }
  }
  // The port is busy for as long as all of it takes.
  void fill(Time time, Time left) {
    while (left > 0) {
      auto run = run_at(time);
      if (run != taken_.end() && run->first <= time) {
        time = run->second;
        continue;
      }
      const Time part = run == taken_.end() ? left : std::min(left, run->first - time);
      Time begin = time, end = time + part;
      left -= part;
      time = end;
      if (run != taken_.begin() && std::prev(run)->second == begin) {
        begin = std::prev(run)->first;
        taken_.erase(std::prev(run));
      }
      if (run != taken_.end() && run->first == end) {
        end = run->second;
        taken_.erase(run);
      }
      taken_[begin] = end;
    }
  }

  Runs taken_;
};

}  // namespace piper::plan
