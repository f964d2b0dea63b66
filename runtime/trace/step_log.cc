#include "runtime/trace/step_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

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

std::string resume_line(int64_t step) { return "{\"resume\": {\"step\": " + std::to_string(step) + "}}"; }

// The step that a line is of, or after which a run went on; nothing: neither, or cut off.
std::optional<int64_t> step_of(const std::string& line) {
  if (line.empty() || line.back() != '}') return std::nullopt;
  for (const std::string_view begin : {"{\"step\": ", "{\"resume\": {\"step\": "}) {
    int64_t step = 0;
    if (line.compare(0, begin.size(), begin) == 0 &&
        std::from_chars(line.data() + begin.size(), line.data() + line.size(), step).ec == std::errc())
      return step;
  }
  return std::nullopt;
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
                     ", \"step_ms\": " + measured(record.step_ms) + ", \"data_wait\": " + measured(record.data_wait_s);
  if (record.tokens_per_s > 0) line += ", \"tokens_per_s\": " + measured(record.tokens_per_s);
  line += ", \"samples_per_s\": " + measured(record.samples_per_s);
  if (record.mfu) line += ", \"mfu\": " + measured(*record.mfu);
  line += ", \"lr\": " + number_text(record.lr);
  if (record.grad_norm) line += ", \"grad_norm\": " + number_text(*record.grad_norm);
  if (!record.grad_norms.empty()) {
    line += ", \"grad_norms\": {";
    for (size_t g = 0; g < record.grad_norms.size(); ++g)
      line += (g > 0 ? ", \"" : "\"") + record.grad_norms[g].first + "\": " + number_text(record.grad_norms[g].second);
    line += "}";
  }
  if (record.loss_scale) line += ", \"loss_scale\": " + number_text(*record.loss_scale);
  if (record.skipped) line += ", \"skipped\": " + std::to_string(*record.skipped);
  if (record.dropped) line += ", \"dropped\": " + std::to_string(*record.dropped);
  if (record.loss_spikes) line += ", \"loss_spikes\": " + std::to_string(*record.loss_spikes);
  return line + ", \"samples_fingerprint\": \"" + fingerprint_text(record.samples_fingerprint) + "\"}";
}

std::string evaluation_line(const EvaluationRecord& record) {
  return "{\"step\": " + std::to_string(record.step) + ", \"eval_loss\": " + number_text(record.loss) +
         (record.perplexity ? ", \"perplexity\": " + number_text(*record.perplexity) : "") + "}";
}

std::string summary_line(const Summary& summary) {
  std::string line = "{\"summary\": {\"steps\": " + std::to_string(summary.steps) +
                     ", \"median_step_ms\": " + measured(summary.median_step_ms) +
                     ", \"total_s\": " + measured(summary.total_s) + ", \"peak_memory_bytes\": [";
  for (size_t i = 0; i < summary.peak_memory_bytes.size(); ++i)
    line += (i == 0 ? "" : ", ") + std::to_string(summary.peak_memory_bytes[i]);
  return line + "]}}";
}

namespace {

Status cannot_write(const std::string& path, const std::string& why) {
  return Status::failure("R0601", "cannot write the log '" + path + "': " + why);
}

// For appending, and for this process alone: two runs would write over each other's lines. Kept until it is closed.
Result<StepLog::File> open_alone(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return cannot_write(path, std::strerror(errno));
  struct stat found{};
  const bool regular = ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
  const bool taken = regular && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  StepLog::File file(taken ? nullptr : ::fdopen(fd, "a"));
  if (file != nullptr) return file;
  const std::string why = taken ? "another run writes it; give each run a --log of its own" : std::strerror(errno);
  ::close(fd);
  return cannot_write(path, why);
}

}  // namespace

// Pipes and terminals have no length.
Status StepLog::cut(const StepLog& log, int64_t bytes) {
  struct stat found{};
  const int fd = ::fileno(log.file_.get());
  if (::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && ::ftruncate(fd, bytes) != 0)
    return cannot_write(log.path_, std::strerror(errno));
  return {};
}

Result<StepLog> StepLog::open(const std::string& path) {
  StepLog log;
  log.path_ = path;
  if (path.empty()) return log;
  PIPER_ASSIGN(log.file_, open_alone(path));
  PIPER_RETURN_IF_ERROR(cut(log, 0));
  return log;
}

Result<StepLog> StepLog::resume(const std::string& path, int64_t step) {
  // What an earlier run wrote to a pipe or a terminal is not there to be kept, and reading one would wait for ever.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    PIPER_ASSIGN(StepLog log, open(path));
    PIPER_RETURN_IF_ERROR(log.write(resume_line(step)));
    return log;
  }
  std::ifstream before(path);
  int64_t keep = 0;  // bytes
  for (std::string line; std::getline(before, line) && !before.eof() && step_of(line).value_or(step + 1) <= step;)
    keep += static_cast<int64_t>(line.size()) + 1;
  before.close();
  StepLog log;
  log.path_ = path;
  PIPER_ASSIGN(log.file_, open_alone(path));
  // Lines that are kept stay where they are, so that no crash loses them.
  PIPER_RETURN_IF_ERROR(cut(log, keep));
  PIPER_RETURN_IF_ERROR(log.write(resume_line(step)));
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
