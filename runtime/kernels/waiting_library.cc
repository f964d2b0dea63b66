#include "runtime/kernels/waiting_library.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/kernels/call_reader.h"
#include "schemas/plan/call_key.h"
#include "schemas/plan/kernels.h"

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

// Counts of rows as a balanced router has them, so that exchanges move what a simulation takes them to move.
class WaitingRouter : public WaitingKernel {
 public:
  // `counts` [segments, experts of one].
  WaitingRouter(Clock::duration time, const BoundOperand& counts, int64_t rows, int64_t capacity)
      : WaitingKernel(time),
        counts_(counts.data),
        shape_(counts.operand->shape),
        strides_(counts.operand->strides),
        rows_(rows),
        capacity_(capacity) {}

  void run(hal::Queue& queue) override {
    WaitingKernel::run(queue);
    auto* const counts = counts_.in_device_as<int64_t>();
    const int64_t experts = shape_[0] * shape_[1];
    for (int64_t e = 0; e < experts; ++e) {
      const int64_t rows = rows_ / experts + (e < rows_ % experts ? 1 : 0);
      counts[e / shape_[1] * strides_[0] + e % shape_[1] * strides_[1]] = std::min(rows, capacity_);
    }
  }

 private:
  hal::Address counts_;
  std::vector<int64_t> shape_, strides_;
  int64_t rows_, capacity_;
};

int64_t integer_attr(const plan::KernelCall& call, std::string_view name) {
  for (const plan::Attr& attr : call.attrs)
    if (attr.name == name && std::holds_alternative<int64_t>(attr.value)) return std::get<int64_t>(attr.value);
  return 0;
}

class WaitingLibrary : public Library {
 public:
  explicit WaitingLibrary(plan::KernelTimes times) : times_(std::move(times)) {}

  Result<std::unique_ptr<PreparedKernel>> bind(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                               const std::vector<BoundOperand>&,
                                               const TrainingNumbers&) const override {
    const std::string key = plan::call_key(call);
    const auto found = times_.find(key);
    if (found == times_.end()) return Status::failure("R0408", "--kernel-times has no time of the call " + key);
    const std::chrono::duration<double, std::micro> us(found->second);
    const auto time = std::chrono::duration_cast<Clock::duration>(us);
    if (call.kernel == "expert_order" && outputs.size() > 2 && is_present(outputs[2]) &&
        outputs[2].operand->shape.size() == 2)
      return std::unique_ptr<PreparedKernel>(std::make_unique<WaitingRouter>(
          time, outputs[2], plan::elements(call.inputs[0]), integer_attr(call, "capacity")));
    return std::unique_ptr<PreparedKernel>(std::make_unique<WaitingKernel>(time));
  }

 private:
  plan::KernelTimes times_;
};

}  // namespace

std::shared_ptr<const Library> waiting_library(plan::KernelTimes times) {
  return std::make_shared<WaitingLibrary>(std::move(times));
}

}  // namespace piper::kernels
