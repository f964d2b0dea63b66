// What each stream of a rank knows to be complete, from the events that it has waited for: a vector clock per stream,
// walked in issue order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/emit/trace.h"

namespace piper::emit {

class StreamClocks {
 public:
  StreamClocks(const Trace& trace, size_t num_streams)
      : trace_(trace), width_(num_streams), at_(trace.size() * width_, 0), now_(width_ * width_, 0) {}

  // The next instruction of `stream` comes after all of `after`, which is cleared; `wait(j)` for each of them that the
  // stream does not know to be complete, the latest first.
  template <class Wait>
  void order(int32_t stream, std::vector<uint32_t>& after, const Wait& wait) {
    std::sort(after.begin(), after.end(), std::greater<>());
    uint32_t* const mine = &now_[static_cast<size_t>(stream) * width_];
    for (uint32_t j : after) {
      if (trace_.stream_of(j) == stream || knows(stream, j)) continue;
      wait(j);
      const uint32_t* const seen = &at_[static_cast<size_t>(j) * width_];
      for (size_t s = 0; s < width_; ++s) mine[s] = std::max(mine[s], seen[s]);
    }
    after.clear();
  }
  // Steps over the next instruction in issue order.
  void advance(uint32_t i) {
    const int32_t stream = trace_.stream_of(i);
    uint32_t* const mine = &now_[static_cast<size_t>(stream) * width_];
    mine[stream] = i + 1;
    std::copy(mine, mine + width_, &at_[static_cast<size_t>(i) * width_]);
  }
  // Whether `earlier` is over before what `stream` does next.
  bool knows(int32_t stream, uint32_t earlier) const {
    return now_[static_cast<size_t>(stream) * width_ + static_cast<size_t>(trace_.stream_of(earlier))] > earlier;
  }

 private:
  const Trace& trace_;
  size_t width_;
  // 1 + the last instruction of a stream that is known to be complete: [instruction, stream] once that instruction is,
  // [stream, stream] of the stream's next instruction.
  std::vector<uint32_t> at_, now_;
};

}  // namespace piper::emit
