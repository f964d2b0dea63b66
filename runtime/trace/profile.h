// Where a rank's steps go: for every instruction when it began and ended and how long its thread
// computed, as means over the steps after the warm-up. Ranks come to a step one after the other; their times count
// from one moment, so that both ends of a message can be compared. Written by `piper-run --profile`, one line an
// instruction; read by `piper-plan simulate --profile`. Costs two clock readings an instruction.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace piper::trace {

class Profile {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Profile(size_t num_instructions) : times_(num_instructions) {}

  // Steps before this one are not counted: memory and threads are cold.
  static constexpr int64_t kFirstStep = 4;
  void begin_step(int64_t step) {
    counted_ = step >= kFirstStep;
    step_begin_ = Clock::now();
    if (!counted_) return;
    ++steps_;
    begins_ns_ += (step_begin_ - made_).count();
  }
  // The mean over the counted steps of when they began; when this was made, where there are none.
  Clock::time_point mean_begin() const { return made_ + Clock::duration(steps_ > 0 ? begins_ns_ / steps_ : 0); }
  // From now on line() counts from that much after this rank's begin of a step.
  void count_from(Clock::duration after_begin) { after_begin_ = after_begin; }
  // Processor time of the calling thread.
  static int64_t thread_ns();
  // For different instructions from several threads at once.
  void add(int32_t instruction, Clock::time_point begin, Clock::time_point end, int64_t cpu_ns) {
    if (!counted_) return;
    Times& times = times_[static_cast<size_t>(instruction)];
    times.begin_ns += (begin - step_begin_).count();
    times.end_ns += (end - step_begin_).count();
    times.cpu_ns += cpu_ns;
  }
  struct Subject {
    int32_t rank = 0, instruction = 0;
    std::string stream, what;
  };
  // {"rank":0,"instruction":5,"stream":"compute","what":"run PP0.F","begin_us":1.5,"end_us":20.1,"cpu_us":18.2}:
  // microseconds from the begin of the step, or what count_from() said; zeros where no step was counted.
  std::string line(const Subject& subject) const;

 private:
  struct Times {
    int64_t begin_ns = 0, end_ns = 0, cpu_ns = 0;  // sums over steps; from the step's begin
  };
  std::vector<Times> times_;
  Clock::time_point made_ = Clock::now(), step_begin_;
  int64_t begins_ns_ = 0;  // sum over steps; from made_
  Clock::duration after_begin_{};
  bool counted_ = false;
  int64_t steps_ = 0;
};

}  // namespace piper::trace
