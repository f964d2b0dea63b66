// A monotone counter that threads wait on: an event of a plan (its value is the step in which it was
// last recorded) and the completion of a transfer. Waiting spins briefly, then sleeps in the kernel;
// signalling makes a system call only when somebody sleeps. It never goes back, so no step has to
// reset it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "runtime/hal/stop.h"

namespace piper::hal {

enum class WaitResult : uint8_t { kReady, kStopped, kTimedOut };

class Counter {
 public:
  // Everything written before signal() is visible to a thread whose wait() returned kReady.
  void signal(uint32_t value);
  bool reached(uint32_t value) const { return value_.load(std::memory_order_acquire) >= value; }
  // Calls `sleeps`, which may be nothing, before it sleeps in the kernel, and again and again while it does.
  WaitResult wait(uint32_t at_least, const WaitControl& control, const std::function<void()>& sleeps = nullptr);

 private:
  WaitResult sleep(uint32_t at_least, const WaitControl& control, const std::function<void()>& sleeps);

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace piper::hal
