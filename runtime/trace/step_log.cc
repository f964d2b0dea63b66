#include "runtime/trace/step_log.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string_view>

namespace piper::trace {

namespace {

template <class T>
std::string shortest(T value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  (void)error;  // 64 characters hold every float and double
  return std::string(text, end);
}

// Measured numbers: more digits than the clock has say nothing.
std::string measured(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::isfinite(value) ? text : "0";
}

}  // namespace

std::string fingerprint_text(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}
std::string number_text(double value) { return shortest(value); }
std::string number_text(float value) { return shortest(value); }

std::string step_line(const StepRecord& record) {
  std::string line = "{\"step\": " + std::to_string(record.step) + ", \"loss\": " + number_text(record.loss) +
                     ", \"step_ms\": " + measured(record.step_ms);
  if (record.tokens_per_s > 0) line += ", \"tokens_per_s\": " + measured(record.tokens_per_s);
  line += ", \"samples_per_s\": " + measured(record.samples_per_s) + ", \"lr\": " + number_text(record.lr);
  if (record.grad_norm) line += ", \"grad_norm\": " + number_text(*record.grad_norm);
  if (record.loss_scale) line += ", \"loss_scale\": " + number_text(*record.loss_scale);
  if (record.skipped) line += ", \"skipped\": " + std::to_string(*record.skipped);
  if (record.dropped) line += ", \"dropped\": " + std::to_string(*record.dropped);
  return line + ", \"samples_fingerprint\": \"" + fingerprint_text(record.samples_fingerprint) + "\"}";
}

std::string summary_line(const Summary& summary) {
  std::string line = "{\"summary\": {\"steps\": " + std::to_string(summary.steps) +
                     ", \"median_step_ms\": " + measured(summary.median_step_ms) +
                     ", \"total_s\": " + measured(summary.total_s) + ", \"peak_memory_bytes\": [";
  for (size_t i = 0; i < summary.peak_memory_bytes.size(); ++i)
    line += (i == 0 ? "" : ", ") + std::to_string(summary.peak_memory_bytes[i]);
  return line + "]}}";
}

Result<StepLog> StepLog::open(const std::string& path) {
  StepLog log;
  log.path_ = path;
  if (path.empty()) return log;
  log.file_.reset(std::fopen(path.c_str(), "we"));
  if (log.file_ == nullptr)
    return Status::failure("R0601", "cannot write the log '" + path + "': " + std::strerror(errno));
  return log;
}

Result<StepLog> StepLog::resume(const std::string& path, int64_t step) {
  std::vector<std::string> kept;
  std::ifstream before(path);
  for (std::string line; !path.empty() && std::getline(before, line);) {
    constexpr std::string_view kStep = "{\"step\": ";
    int64_t of = 0;
    const bool read = line.compare(0, kStep.size(), kStep) == 0 && line.back() == '}' &&
                      std::from_chars(line.data() + kStep.size(), line.data() + line.size(), of).ec == std::errc();
    if (read && of <= step) kept.push_back(std::move(line));
  }
  before.close();
  PIPER_ASSIGN(StepLog log, open(path));
  kept.push_back("{\"resume\": {\"step\": " + std::to_string(step) + "}}");
  for (const std::string& line : kept) PIPER_RETURN_IF_ERROR(log.write(line));
  return log;
}

Status StepLog::write(const std::string& line) {
  if (file_ == nullptr) return {};
  if (std::fputs(line.c_str(), file_.get()) < 0 || std::fputc('\n', file_.get()) == EOF ||
      std::fflush(file_.get()) != 0)
    return Status::failure("R0601", "cannot write the log '" + path_ + "': " + std::strerror(errno));
  return {};
}

}  // namespace piper::trace
