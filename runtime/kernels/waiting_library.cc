#include "runtime/kernels/waiting_library.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>
#include <utility>

#include "schemas/plan/call_key.h"

namespace piper::kernels {
namespace {

using Clock = std::chrono::steady_clock;

// A sleep ends late: by the timer's slack, and until a processor is free. Device kernels are not late, so what comes
// behind one at once begins when that one should have ended.
class Sleeper {
 public:
  // The default slack of 50 us is as long as many a kernel.
  Sleeper() { (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

  void sleep(Clock::duration time) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point begin = now - woke_ < kAtOnce ? now - late_ : now;
    const Clock::time_point end = begin + time;
    if (end > now) std::this_thread::sleep_until(end);
    woke_ = Clock::now();
    late_ = woke_ - end;
  }

 private:
  static constexpr Clock::duration kAtOnce = std::chrono::microseconds(20);
  Clock::time_point woke_;
  Clock::duration late_{};
};

class WaitingKernel : public PreparedKernel {
 public:
  explicit WaitingKernel(Clock::duration time) : time_(time) {}
  void run(hal::Queue&) override {
    thread_local Sleeper sleeper;
    sleeper.sleep(time_);
  }

 private:
  Clock::duration time_;
};

class WaitingLibrary : public Library {
 public:
  explicit WaitingLibrary(plan::KernelTimes times) : times_(std::move(times)) {}

  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>&,
                                               const std::vector<BoundOperand>&,
                                               const TrainingNumbers&) const override {
    const std::string key = plan::call_key(call);
    const auto found = times_.find(key);
    if (found == times_.end()) return Status::failure("R0408", "--kernel-times has no time of the call " + key);
    const std::chrono::duration<double, std::micro> time(found->second);
    return std::unique_ptr<PreparedKernel>(
        std::make_unique<WaitingKernel>(std::chrono::duration_cast<Clock::duration>(time)));
  }

 private:
  plan::KernelTimes times_;
};

}  // namespace

std::shared_ptr<const Library> waiting_library(plan::KernelTimes times) {
  return std::make_shared<WaitingLibrary>(std::move(times));
}

}  // namespace piper::kernels
