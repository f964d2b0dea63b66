// One start of a job: a piper-launch as a child of piperd, so that jobs run by the code that users run by hand, and a
// fault of one job's supervisor is no fault of the daemon. Both end with it, however that comes.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/child_process.h"
#include "launcher/daemon/event_loop.h"
#include "launcher/daemon/job.h"
#include "launcher/daemon/running_attempt.h"

namespace piper::launcher {

struct AttemptStart {
  std::string launcher;   // the path of piper-launch
  std::string folder;     // of the job, or its part: status pages, report, life lock
  std::string incidents;  // the folder of what is kept of hangs
  Output::Sink line;      // takes each line that is printed
  sigset_t blocked{};     // signals
  // Of a part of a job of several nodes:
  int32_t node = 0;       // its number
  std::string master;     // HOST:PORT where the ranks meet
  std::string lease;      // the file by which the ranks live
  int store_socket = -1;  // that listens there, where rank 0 is of this node
};

class Attempt : public RunningAttempt {
 public:
  // `ended` is called once, from the loop, when the piper-launch has ended and its output is in the log. L0102, L0104,
  // L0133, L0137: nothing was started.
  static Result<std::unique_ptr<Attempt>> start(EventLoop& loop, const AttemptStart& start, const Job& job,
                                                Ended ended);

  void signal(int number, std::optional<std::chrono::milliseconds> kill_after) override;

 private:
  Attempt(EventLoop& loop, Ended ended) : loop_(loop), ended_(std::move(ended)) {}
  void watch(Output& output, std::unique_ptr<EventLoop::Watch>& watch);
  void take_end();

  EventLoop& loop_;
  Ended ended_;
  std::optional<ChildProcess> process_;
  // Declared after what they watch: they end first.
  std::unique_ptr<EventLoop::Watch> end_, out_, err_, kill_;
};

}  // namespace piper::launcher
