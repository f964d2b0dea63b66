// Why the ranks of this process end early: the first failure, or a signal. One Stop is shared by all
// ranks and streams of a process; everything that waits looks at it, so that nothing hangs after a
// failure. It does not reach other processes: the transport's abort() does.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "schemas/base/status.h"

namespace piper::hal {

class Stop {
 public:
  // Cheap enough for every instruction and every turn of a waiting loop.
  bool raised() const {
    return raised_.load(std::memory_order_relaxed) || signal_.load(std::memory_order_relaxed) != 0;
  }
  // Keeps the first failure; later ones are consequences of it and dropped.
  void raise(Status failure);
  // Async-signal-safe.
  void raise_signal(int signal_number) noexcept { signal_.store(signal_number, std::memory_order_relaxed); }
  int signal_number() const { return signal_.load(std::memory_order_relaxed); }
  // The first failure so far, or ok.
  Status failure();
  // The first failure, or ok when nothing failed (a signal alone is no failure). Call after joining.
  Status take_failure();

 private:
  std::atomic<bool> raised_{false};
  std::atomic<int> signal_{0};
  static_assert(std::atomic<int>::is_always_lock_free);
  std::mutex mutex_;
  Status failure_;
};

// What a waiting call returns after Stop was raised by somebody else: nothing more to report.
Status stopped();
bool is_stopped(const Status& status);

class MessageWaits;  // message_waits.h

// How a call waits: until `stop` is raised, or `timeout` has passed.
struct WaitControl {
  const Stop* stop = nullptr;
  std::chrono::milliseconds timeout{300000};
  MessageWaits* messages = nullptr;  // of the calling thread; records what it waits for. nullptr: nobody wants to know
};

inline bool raised(const WaitControl& wait) { return wait.stop != nullptr && wait.stop->raised(); }

// More patience than a message has: where a rank waits for what others do only after their messages, the message that
// never came is what is reported.
inline WaitControl patient(WaitControl control) {
  control.timeout += control.timeout / 4 + std::chrono::milliseconds(200);
  return control;
}

// Files take as long as they take: for ranks that wait while one of them reads, writes or removes some. They hear of
// its failure.
inline WaitControl for_files(WaitControl control) {
  control.timeout = std::chrono::hours(24);
  return control;
}

}  // namespace piper::hal
