#include "launcher/output.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace piper::launcher {

Output::Output(Output&& other) noexcept
    : source_(std::exchange(other.source_, -1)),
      sink_(std::move(other.sink_)),
      partial_(std::move(other.partial_)),
      tail_(std::move(other.tail_)) {}

Output::~Output() {
  if (source_ >= 0) close(source_);
}

void Output::pass_on() {
  char data[16384];
  // More than a pipe holds, and no more: who prints without end does not keep the others waiting.
  for (int reads = 0; source_ >= 0 && reads < 8; ++reads) {
    const ssize_t count = read(source_, data, sizeof data);
    if (count > 0) {
      take(data, static_cast<size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else {
      if (count < 0 && errno == EAGAIN) return;
      close(source_);
      source_ = -1;
    }
  }
}

void Output::finish() {
  if (!partial_.empty()) line(partial_ + "\n");
  partial_.clear();
}

void Output::take(const char* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    partial_ += data[i];
    if (data[i] != '\n' && partial_.size() < kLongestLine) continue;
    line(data[i] == '\n' ? partial_ : partial_ + "\n");
    partial_.clear();
  }
}

void Output::line(const std::string& text) {
  sink_(text);
  tail_.push_back(text);
  if (tail_.size() > kTailLines) tail_.pop_front();
}

void write_all(int target, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(target, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) at += static_cast<size_t>(written);
  }
}

}  // namespace piper::launcher
