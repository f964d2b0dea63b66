// SIGQUIT: where every thread of this process's ranks is, and what it did before, goes to standard error, and the run
// goes on. A thread of its own writes it, so that it also reports a run that hangs.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <thread>

#include "runtime/exec/session/session.h"

namespace piper::program {

class RingDump {
 public:
  // One at a time in a process; `session` outlives it.
  explicit RingDump(exec::Session& session);
  ~RingDump();
  RingDump(const RingDump&) = delete;
  RingDump& operator=(const RingDump&) = delete;

 private:
  static void on_quit(int);
  void work();
  void write();

  exec::Session& session_;
  sem_t asked_{};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace piper::program
