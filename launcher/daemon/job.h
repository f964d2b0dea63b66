// A job of piperd: what was submitted, and what has become of it. What of it is here survives the daemon.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/cluster/placement.h"

namespace piper::launcher {

enum class JobState : uint8_t {
  kQueued,    // waits for slots
  kRunning,   // a piper-launch has its ranks
  kWaiting,   // to be started again, and keeps its slots
  kDone,      // ended with status 0
  kFailed,    // ended with another one, and is not started again
  kCancelled  // by request
};
inline constexpr int kNumJobStates = 6;
const char* name_of(JobState state);  // "queued"
inline bool has_ended(JobState state) {
  return state == JobState::kDone || state == JobState::kFailed || state == JobState::kCancelled;
}
inline bool holds_slots(JobState state) { return state == JobState::kRunning || state == JobState::kWaiting; }

// Times are milliseconds since 1970.
struct JobSpec {
  std::string name;
  std::vector<std::string> arguments;    // the first is the path of the program
  std::string folder;                    // where it starts
  std::vector<std::string> environment;  // "NAME=value", all of it
  int32_t ranks = 1;                     // of all nodes
  int32_t nodes = 1;                     // as many ranks on each; 1: the daemon's own node
  int64_t grace_s = 30;                  // from SIGTERM to SIGKILL
  int32_t restarts = 0;                  // after failures, in `window_s`
  int64_t window_s = 3600;               // seconds
};

struct Job {
  int64_t id = 0;  // from 1, never given twice
  JobSpec spec;
  JobState state = JobState::kQueued;
  int64_t submitted_ms = 0;
  int64_t started_ms = 0, ended_ms = 0;  // the last attempt, the job; 0: not yet
  int64_t next_start_ms = 0;             // where it waits
  int32_t attempts = 0;                  // starts
  int32_t restarts = 0;                  // of these, after failures
  std::vector<int64_t> restarted_ms;     // the newest of them, which the budget counts
  int32_t incidents = 0;
  int exit_status = -1;                         // of the last attempt that ended; -1: none has
  std::string why;                              // one line about that
  bool resume = false;                          // the next start goes on from the newest valid checkpoint
  std::vector<std::string> checkpoints_before;  // those that the first attempt found (restarts.h)
  bool cancelling = false;                      // it was asked to end
  // Of a job of several nodes:
  std::vector<std::string> placed;    // where the last attempt was, by the node's number in the job
  FailingNode failing;                // on which the last attempts failed
  std::vector<std::string> excluded;  // nodes that get no part any more
  int64_t fence_ms = 0;               // so long may its parts live after the daemon
};

}  // namespace piper::launcher
