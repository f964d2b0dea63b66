// What a child process prints, passed on line by line, so that lines of several do not mix; the last ones are kept. One
// for each stream of each process.
#pragma once

#include <deque>
#include <functional>
#include <string>

namespace piper::launcher {

class Output {
 public:
  // Takes a line with its end.
  using Sink = std::function<void(const std::string& line)>;
  // Reads from `source`, which is closed at the end.
  Output(int source, Sink sink) : source_(source), sink_(std::move(sink)) {}
  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  int source() const { return source_; }  // -1: it has ended
  // Passes on what there is to read, without waiting.
  void pass_on();
  // After the last call of pass_on(): also a line that has no end.
  void finish();
  const std::deque<std::string>& tail() const { return tail_; }

  static constexpr size_t kTailLines = 20, kLongestLine = size_t{64} << 10;

 private:
  void take(const char* data, size_t bytes);
  void line(const std::string& text);

  int source_;
  Sink sink_;
  std::string partial_;
  std::deque<std::string> tail_;
};

// To a descriptor. What nobody reads any more is dropped: a closed terminal does not end a run.
void write_all(int target, const std::string& text);

}  // namespace piper::launcher
