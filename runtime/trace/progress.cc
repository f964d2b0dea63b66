#include "runtime/trace/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace piper::trace {

namespace {

using std::chrono::steady_clock;

double seconds_between(steady_clock::time_point from, steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Often enough to look alive, rarely enough to cost nothing.
constexpr double kTerminalInterval = 0.1;
constexpr double kLineInterval = 5.0;

}  // namespace

std::string progress_text(const StepRecord& record, int64_t total_steps, double seconds_left) {
  char text[256];
  const bool tokens = record.tokens_per_s > 0;
  std::snprintf(text, sizeof text, "step %lld/%lld  loss %.5g  %.4g %s", static_cast<long long>(record.step),
                static_cast<long long>(total_steps), static_cast<double>(record.loss),
                tokens ? record.tokens_per_s : record.samples_per_s, tokens ? "tokens/s" : "samples/s");
  std::string line = text;
  if (record.dropped.value_or(0) > 0) line += "  " + std::to_string(*record.dropped) + " rows dropped";
  if (record.step < total_steps) {
    const auto left = static_cast<long long>(std::llround(seconds_left));
    if (left >= 3600)
      std::snprintf(text, sizeof text, "  %lld:%02lld:%02lld left", left / 3600, left / 60 % 60, left % 60);
    else std::snprintf(text, sizeof text, "  %lld:%02lld left", left / 60, left % 60);
    line += text;
  }
  return line;
}

std::string evaluation_text(const EvaluationRecord& record) {
  char text[128];
  std::snprintf(text, sizeof text, "step %lld: evaluation, loss %.5g", static_cast<long long>(record.step),
                record.loss);
  std::string line = text;
  if (record.perplexity) {
    std::snprintf(text, sizeof text, ", perplexity %.5g", *record.perplexity);
    line += text;
  }
  return line;
}

Progress::Progress(int64_t total_steps)
    : total_steps_(total_steps),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(steady_clock::now()),
      last_shown_(start_) {}

void Progress::step(const StepRecord& record) {
  const auto now = steady_clock::now();
  const bool last = record.step == total_steps_;
  if (!last && seconds_between(last_shown_, now) < (terminal_ ? kTerminalInterval : kLineInterval)) return;
  last_shown_ = now;
  const double left =
      seconds_between(start_, now) / static_cast<double>(record.step) * static_cast<double>(total_steps_ - record.step);
  const std::string text = progress_text(record, total_steps_, left);
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  clear_line();
  std::fprintf(stderr, "%s%s", text.c_str(), last ? "\n" : "");
  line_shown_ = !last;
}

void Progress::note(const std::string& text) {
  clear_line();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Progress::clear_line() {
  if (line_shown_) std::fputs("\r\033[K", stderr);
  line_shown_ = false;
}

}  // namespace piper::trace
