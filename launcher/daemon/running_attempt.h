// One start of a job, wherever its ranks are: on this node (attempt.h) or on several (spread_attempt.h). What the
// daemon knows of it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace piper::launcher {

// How soon it is looked again whether what an attempt left behind has ended.
inline constexpr std::chrono::milliseconds kSettle{20};
// How long an attempt has after its grace period before the daemon kills it: piper-launch kills at its end itself.
inline constexpr std::chrono::milliseconds kBehindGrace{10000};

struct AttemptEnd {
  int exit_status = 0;
  // For several nodes:
  std::string why;       // what is known beside the status
  std::string node;      // on which it failed; empty: that is not known
  bool refused = false;  // nothing was started: a node had no place, or did not answer. No attempt at all
};

class RunningAttempt {
 public:
  // Called once, from the loop, when nothing of it runs any more and its output is in the log.
  using Ended = std::function<void(const AttemptEnd& end)>;
  virtual ~RunningAttempt() = default;
  // Hands a signal to the ranks; after `kill_after` the attempt is killed.
  virtual void signal(int number, std::optional<std::chrono::milliseconds> kill_after) = 0;
};

}  // namespace piper::launcher
