#include "runtime/hal/counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace piper::hal {

namespace {

// About a microsecond: longer only takes cycles from the thread that is waited for when ranks share cores.
constexpr int kSpins = 64;
// A sleeper looks at Stop this often, so raising it needs no list of sleepers.
constexpr int64_t kSliceNs = 50'000'000;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Counter::signal(uint32_t value) {
  value_.store(value, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

WaitResult Counter::wait(uint32_t at_least, const WaitControl& control, const std::function<void()>& sleeps) {
  for (int i = 0; i < kSpins; ++i) {
    if (reached(at_least)) return WaitResult::kReady;
    pause_core();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  WaitResult result = sleep(at_least, control, sleeps);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return result;
}

WaitResult Counter::sleep(uint32_t at_least, const WaitControl& control, const std::function<void()>& sleeps) {
  static_assert(sizeof(value_) == sizeof(uint32_t));
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    uint32_t now = value_.load(std::memory_order_seq_cst);
    if (now >= at_least) return WaitResult::kReady;
    if (control.stop != nullptr && control.stop->raised()) return WaitResult::kStopped;
    if (std::chrono::steady_clock::now() - start > control.timeout) return WaitResult::kTimedOut;
    if (sleeps) sleeps();
    timespec slice{0, kSliceNs};
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, now, &slice, nullptr, 0);
  }
}

}  // namespace piper::hal
