// What a part's ranks print, until its coordinator has it. Bytes are counted from the part's first one on.
#pragma once

#include <cstdint>
#include <string>

namespace piper::launcher {

class PartLog {
 public:
  static constexpr size_t kMostBytes = size_t{4} << 20, kPieceBytes = size_t{64} << 10;

  // A line with its end. Beyond what is kept, the oldest ones go.
  void append(const std::string& line);
  // The coordinator has what is before byte `next`.
  void acknowledge(int64_t next);
  int64_t from() const { return from_; }
  bool empty() const { return text_.empty(); }
  // The oldest lines, about kPieceBytes at most.
  std::string piece() const;

 private:
  std::string text_;
  int64_t from_ = 0;  // bytes before it
};

}  // namespace piper::launcher
