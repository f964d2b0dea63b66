// After which step all ranks of a run save a checkpoint, or end with one, because a signal asked for it, or stop
// training to look for the call that made the loss NaN. No rank decides alone, and no step waits to ask the others:
// docs/decisions/0024-stopping.md.
//
// Processes meet every `period` on a control channel and a thread of their own, beside the steps. Where one of them was
// asked for something, each holds its ranks back from the next step and says which one they have begun; the latest of
// these is the step, which all ranks can reach, and the ranks are let go. A rank that was held back waits for threads
// that no step holds up, so that nothing waits in a circle.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/exec/session/stop_requests.h"
#include "runtime/hal/control_channel.h"

namespace piper::exec {

// What ranks do after a step; the later one wins, except over an end that was agreed before. kStop: they save and end.
// kLeave: they save nothing, and end once the checkpoint that is being written is committed. kReplay: they save nothing
// and look for what made a NaN (nan_replay.h).
enum class StopAction : uint8_t { kGoOn, kSave, kStop, kLeave, kReplay };

// One per process, shared by its ranks.
class StopAgreement {
 public:
  static constexpr std::chrono::milliseconds kPeriod{200};
  // The arguments outlive this object. `control`: of this alone; nullptr: all ranks of the run are in this process, and
  // there is no thread.
  StopAgreement(hal::ControlChannel* control, hal::Stop& stop, StopRequests& requests,
                std::chrono::milliseconds period = kPeriod);
  // Call end() first, unless the run has failed.
  ~StopAgreement();
  StopAgreement(const StopAgreement&) = delete;
  StopAgreement& operator=(const StopAgreement&) = delete;

  // Each rank, before its first step (`step`: the one before) and after each but the last: what is to be done
  // there. The next step counts as begun unless it is kStop or later. `write_s`: what the last checkpoint took from its
  // step to its commit, 0: none was saved. Where SIGTERM's grace period is too short for that, none is begun, and the
  // run is stopped at once if none is being written. Errors of the channel; stopped().
  Result<StopAction> after(int64_t step, double write_s);
  // How long a rank's last step took. For people: ranks hear of those of other processes when these next meet.
  void tell_step_time(int32_t rank, double ms);
  std::map<int32_t, double> step_times_ms();  // by rank, those that are known
  // The signal that asked for kStop or kLeave, 0: none.
  int signal_number();
  // No rank of this process calls after() any more. Waits until that is so everywhere. Errors of the channel.
  Status end();

 private:
  struct Told {  // by a process
    bool ended = false, save = false, replay = false, writing = false;
    int stop = 0;
    int64_t begun = -1;
    int64_t write_ms = 0;
    double step_ms = 0;
  };
  static bool asked(const Told& one);
  Told told();  // under the mutex
  Result<std::vector<Told>> tell(const Told& mine);
  void decide(int64_t step, const std::vector<Told>& all, int64_t saves);  // under the mutex
  Status meet();
  void work();

  hal::ControlChannel* const control_;
  hal::Stop& stop_;
  StopRequests& requests_;
  const std::chrono::milliseconds period_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t begun_ = -1;         // the latest step that a rank here has begun; -1: none is before its first step yet
  int64_t limit_ = INT64_MAX;  // no later one is begun
  int64_t write_ms_ = 0;       // of the last checkpoint
  std::map<int64_t, StopAction> agreed_;  // by step; one for each request, and ranks may be far apart: all are kept
  std::map<int32_t, double> step_ms_;     // by rank
  bool replays_ = false;                  // it is agreed
  int stopped_by_ = 0;
  int64_t saves_ = 0;  // of requests_, those that are agreed
  bool ended_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace piper::exec
