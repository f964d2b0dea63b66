// What a rank prints, passed on line by line, so that lines of ranks do not mix; the last ones are kept. Used by the
// supervisor, one for each stream of each rank.
#pragma once

#include <deque>
#include <string>

namespace piper::launcher {

class Output {
 public:
  // Reads from `source`, which is closed at the end; writes to `target`. `tag`: in front of each line.
  Output(int source, int target, std::string tag) : source_(source), target_(target), tag_(std::move(tag)) {}
  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  int source() const { return source_; }  // -1: it has ended
  // Passes on what there is to read, without waiting.
  void pass_on();
  // Behind the last call of pass_on(): also a line that has no end.
  void finish();
  const std::deque<std::string>& tail() const { return tail_; }

  static constexpr size_t kTailLines = 20, kLongestLine = size_t{64} << 10;

 private:
  void take(const char* data, size_t bytes);
  void line(const std::string& text);

  int source_, target_;
  std::string tag_, partial_;
  std::deque<std::string> tail_;
};

}  // namespace piper::launcher
