// A thread that makes calls which may never return: a library's answer from a machine that has vanished comes neither
// as a result nor as an error. The caller waits as long as its WaitControl says and abandons the thread then. Used
// by the channel over the TCP store; one caller at a time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/hal/stop.h"

namespace piper::hal {

class BoundedThread {
 public:
  BoundedThread();
  // Waits for the thread, unless it was left behind.
  ~BoundedThread();
  BoundedThread(const BoundedThread&) = delete;
  BoundedThread& operator=(const BoundedThread&) = delete;

  // Signals to a job that nobody waits for it any more; read by every turn of a loop that waits.
  using GivenUp = std::atomic<bool>;
  using Job = std::function<Status(const GivenUp& given_up)>;
  // What `job` returned; stopped() when Stop was raised, noticed within about 50 ms; nothing when it has not returned
  // kGrace after the time-out. A job owns what it touches, since it may outlive the caller.
  std::optional<Status> run(Job job, const WaitControl& wait);
  // Whether the thread is still inside of a job that was given up.
  bool left_behind() const;

  static constexpr std::chrono::milliseconds kGrace{2000};  // a loaded machine is no dead one

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
};

}  // namespace piper::hal
