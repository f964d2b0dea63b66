// What a person sees while a run goes on, on standard error: on a terminal one line that is rewritten
// (loss, speed, time left), otherwise a line every few seconds and for the last step.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/trace/step_log.h"

namespace piper::trace {

// "step 12/100  loss 5.4321  1234 tokens/s  1:23 left"; "3 rows dropped" is in it where experts dropped some.
std::string progress_text(const StepRecord& record, int64_t total_steps, double seconds_left);

// "step 12: evaluation, loss 5.4321, perplexity 228.6".
std::string evaluation_text(const EvaluationRecord& record);

class Progress {
 public:
  explicit Progress(int64_t total_steps);
  void step(const StepRecord& record);
  // Something to say beside the progress line, e.g. that an epoch begins.
  void note(const std::string& text);

 private:
  void clear_line();
  int64_t total_steps_;
  bool terminal_;
  bool line_shown_ = false;
  std::chrono::steady_clock::time_point start_, last_shown_;
};

}  // namespace piper::trace
