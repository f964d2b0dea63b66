// Steps of a rank as they were: when every instruction began and ended, what the host did meanwhile, and which of its
// transfers belongs to which of the other ranks. Written by `piper-run --trace`, as a trace of schemas/perfetto.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schemas/live/ring_layout.h"
#include "schemas/plan/plan.h"

namespace piper::trace {

class StepTrace {
 public:
  using Clock = std::chrono::steady_clock;
  // For steps `first` to `last`; `bundle` and `plan` outlive it. `names`: by instruction.
  StepTrace(const plan::Bundle& bundle, const plan::RankPlan& plan, std::vector<std::string> names, int64_t first,
            int64_t last);
  // Whether the step is one of them, and is written from now on.
  bool begin_step(int64_t step);
  // For different instructions from several threads at once, during a step.
  void add(int32_t instruction, Clock::time_point begin, Clock::time_point end) {
    if (step_ != nullptr) step_->at(static_cast<size_t>(instruction)) = {begin, end};
  }
  // What the rank's own thread does from now on, until it does something else.
  void host(live::EventKind kind, int64_t step);

  // The rank's part of the trace; times count from `zero`.
  std::string write(Clock::time_point zero) const;

 private:
  struct Times {
    Clock::time_point begin, end;
  };
  struct HostTimes {
    live::EventKind kind;
    int64_t step = 0;
    Times times;
  };
  bool traced(int64_t step) const { return first_ <= step && step <= last_; }
  // Which message of its channel, or which collective of its communicator, an instruction is within a step: what all of
  // its ends have in common, as text. Empty: it is neither.
  std::vector<std::string> transfers() const;

  const plan::Bundle& bundle_;
  const plan::RankPlan& plan_;
  std::vector<std::string> names_;
  int64_t first_, last_;
  std::vector<std::pair<int64_t, std::vector<Times>>> steps_;  // step -> by instruction
  std::vector<Times>* step_ = nullptr;                         // of steps_, where one is written
  std::vector<HostTimes> host_;
  bool host_open_ = false;  // the last of them goes on
};

}  // namespace piper::trace
