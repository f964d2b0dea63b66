#include "launcher/cluster/part_log.h"

#include <algorithm>

#include "launcher/cluster/messages.h"

namespace piper::launcher {

void PartLog::append(const std::string& line) {
  text_ += plain_text(line);
  if (text_.size() <= kMostBytes) return;
  size_t gone = text_.find('\n', text_.size() - kMostBytes);
  gone = gone == std::string::npos ? text_.size() - kMostBytes : gone + 1;
  acknowledge(from_ + static_cast<int64_t>(gone));
}

void PartLog::acknowledge(int64_t next) {
  const int64_t count = std::clamp<int64_t>(next - from_, 0, static_cast<int64_t>(text_.size()));
  text_.erase(0, static_cast<size_t>(count));
  from_ += count;
}

std::string PartLog::piece() const {
  if (text_.size() <= kPieceBytes) return text_;
  const size_t end = text_.rfind('\n', kPieceBytes);
  // A line is no longer than that, except its tag.
  return text_.substr(0, end == std::string::npos ? kPieceBytes : end + 1);
}

}  // namespace piper::launcher
