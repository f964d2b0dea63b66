#include "runtime/kernels/waiting_library.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/kernels/balanced_choice.h"
#include "runtime/kernels/call_reader.h"
#include "schemas/plan/call_key.h"

namespace piper::kernels {
namespace {

using Clock = std::chrono::steady_clock;

// A sleep ends late: by the timer's slack, and until a processor is free. Device kernels are not late, so what comes
// of the one before at once begins when that one should have ended.
class Sleeper {
 public:
  // The default slack of 50 us is as long as many a kernel.
  Sleeper() { (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

  // `came`: when the call began, some of whose time may be over.
  void sleep(Clock::time_point came, Clock::duration time) {
    const Clock::time_point begin = came - woke_ < kAtOnce ? came - late_ : came;
    const Clock::time_point end = begin + time;
    if (end > Clock::now()) std::this_thread::sleep_until(end);
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
  // `written`: what is really done within the time; may be null.
  WaitingKernel(Clock::duration time, std::unique_ptr<PreparedKernel> written)
      : time_(time), written_(std::move(written)) {}
  void run(hal::Queue& queue) override {
    thread_local Sleeper sleeper;
    const Clock::time_point came = Clock::now();
    if (written_ != nullptr) written_->run(queue);
    sleeper.sleep(came, time_);
  }

 private:
  Clock::duration time_;
  std::unique_ptr<PreparedKernel> written_;
};

bool has_floating(const std::vector<BoundOperand>& operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const BoundOperand& bound) { return is_present(bound) && is_floating(bound.operand->dtype); });
}

class WaitingLibrary : public Library {
 public:
  WaitingLibrary(plan::KernelTimes times, const Library& computing) : times_(std::move(times)), computing_(computing) {}

  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>& inputs,
                                               const TrainingNumbers& numbers) const override {
    const std::string key = plan::call_key(call);
    const auto found = times_.find(key);
    if (found == times_.end()) return Status::failure("R0408", "--kernel-times has no time of the call " + key);
    const std::chrono::duration<double, std::micro> us(found->second);
    std::unique_ptr<PreparedKernel> written;
    if (!has_floating(outputs) && !has_floating(inputs)) {
      PIPER_ASSIGN(written, computing_.bind(call, outputs, inputs, numbers));
    } else {
      try {
        written = balanced_choice(call, outputs, inputs);
      } catch (const Refusal& refusal) {
        return misfit(call, refusal.what());
      }
    }
    return std::unique_ptr<PreparedKernel>(
        std::make_unique<WaitingKernel>(std::chrono::duration_cast<Clock::duration>(us), std::move(written)));
  }

 private:
  plan::KernelTimes times_;
  const Library& computing_;
};

}  // namespace

std::shared_ptr<const Library> waiting_library(plan::KernelTimes times, const Library& computing) {
  return std::make_shared<WaitingLibrary>(std::move(times), computing);
}

}  // namespace piper::kernels
