// Which instructions of one rank happen before which, by streams and events: a vector clock per
// stream, advanced in issue order. Rules 1, 2 and 5 ask it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schemas/plan/actions.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

// A point of a rank's execution: the `tick`-th instruction of a stream, from 1.
struct Moment {
  int32_t stream = -1;
  int32_t tick = 0;
};

class VectorClocks {
 public:
  explicit VectorClocks(const plan::RankPlan& plan)
      : width_(plan.streams.size()), now_(width_ * width_), events_(plan.events.size() * width_) {}

  // Steps over the next instruction in issue order; its moment.
  Moment advance(const plan::Instruction& instruction) {
    const auto stream = static_cast<size_t>(instruction.stream);
    int32_t* const mine = &now_[stream * width_];
    if (const int32_t event = plan::awaited_event(instruction.action); event >= 0) {
      const int32_t* const recorded = &events_[static_cast<size_t>(event) * width_];
      for (size_t i = 0; i < width_; ++i) mine[i] = std::max(mine[i], recorded[i]);
    }
    const int32_t tick = ++mine[stream];
    if (const int32_t event = plan::recorded_event(instruction.action); event >= 0)
      std::copy_n(mine, width_, &events_[static_cast<size_t>(event) * width_]);
    return {instruction.stream, tick};
  }
  // Whether `earlier` is over before what `stream` does now.
  bool before(const Moment& earlier, int32_t stream) const {
    return now_[static_cast<size_t>(stream) * width_ + static_cast<size_t>(earlier.stream)] >= earlier.tick;
  }

 private:
  size_t width_;
  std::vector<int32_t> now_;     // [streams, streams]
  std::vector<int32_t> events_;  // [events, streams], zeros before the record
};

}  // namespace piper::verify
