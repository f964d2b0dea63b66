// What signals ask of a run that saves checkpoints. program/signals.h sets the flags in its handlers; stop_agreement.h
// looks at them. docs/stopping.md says for users which signal asks for what.
#pragma once

#include <atomic>
#include <cstdint>

namespace piper::exec {

// From SIGTERM to the agreement of processes on a step, which waits for no step: where it takes longer, one is gone.
inline constexpr unsigned kAgreeSeconds = 5;

struct StopRequests {
  std::atomic<int> stop{0};              // SIGUSR1 or SIGTERM, the first that came: save a checkpoint and end
  std::atomic<int64_t> saves{0};         // how often SIGUSR2 came: save a checkpoint and go on
  std::atomic<bool> replay{false};       // by the reporting rank: the loss is no number, all steps end to look for why
  std::atomic<bool> checkpoints{false};  // somebody looks here; else a request to stop ends the run at once
  std::atomic<bool> stepping{false};     // steps are being done: before them SIGTERM has nothing to save
  std::atomic<bool> by_threads{false};   // processes agree beside the steps, and not at the end of one
  std::atomic<bool> agreed{false};       // on the step after which the run ends
  std::atomic<unsigned> grace_s{30};     // from SIGTERM to the end of the process, at most
  std::atomic<int> writing{0};           // checkpoints that ranks of this process are writing
  // Handlers use them.
  static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

  // Sets `agreed`. After SIGTERM, whose handler has set an alarm, the run has the rest of its grace period from now
  // on.
  void agree();
};

}  // namespace piper::exec
