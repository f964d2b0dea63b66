// Looks at the rings of a node's ranks and says when the run hangs: no thread of any rank has reported anything for
// longer than what it does can take. Then it finds the culprit, and keeps the rings and what they say in a folder. Used
// by the supervisor, a few times a second; ends nothing itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/live/ring.h"
#include "schemas/live/stragglers.h"
#include "schemas/live/wait_graph.h"

namespace piper::launcher {

struct HangOptions {
  std::chrono::milliseconds after{30000};   // at least so long after the first step; 0: nobody watches
  std::chrono::milliseconds first{300000};  // before, and of the first checkpoint and the first evaluation
  // Predicted of a step; where it is, the first one may take `after`, or `factor` times this. 0: not known.
  std::chrono::milliseconds step{0};
  double factor = 10;                         // and so many times the longest that was seen of the same kind
  std::string incidents = "piper-incidents";  // the folder of what is kept
};

class HangWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // `ranks`: of this node. `rings`: their folder. The bundle is read when the run hangs.
  HangWatch(const HangOptions& options, std::string bundle, std::string rings, int32_t ranks);

  // Whether the run hangs at `now`. Time in which nobody looked does not count: a machine that slept is no hang.
  bool hangs(Clock::time_point now);
  // The report on a run that hangs: L0121, whose message is for the user: the culprit, who waits, where the rings are
  // kept.
  Status report() const;
  // Where all threads are, for a user who asks.
  std::string positions() const;
  // A line for every rank that has become slow against the others since the last call; rarely anything.
  std::vector<std::string> stragglers(Clock::time_point now);
  // Ends the processes that the rings are of.
  void kill_ranks() const;

  static constexpr std::chrono::milliseconds kEvery{200}, kCompareEvery{5000};

 private:
  struct Seen {
    int64_t process = 0;
    std::vector<std::pair<uint64_t, live::RingExchange>> tracks;  // how many events, and how far the last one is
  };
  std::chrono::milliseconds limit(const live::Ring& ring) const;
  enum class Events : uint8_t { kNewest, kAll };
  std::vector<live::Ring> read_all(Events events) const;
  std::string keep(const std::vector<live::Ring>& rings, const std::string& text, int64_t now_ns) const;

  const HangOptions options_;
  const std::string bundle_, rings_;
  const int32_t ranks_;
  std::map<int32_t, Seen> seen_;  // by rank
  std::chrono::milliseconds quiet_{0};
  std::optional<Clock::time_point> looked_, compared_;
  live::Stragglers stragglers_;
};

}  // namespace piper::launcher
