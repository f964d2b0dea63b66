// What a thread of a rank waits for inside of an instruction that communicates, or as a host among hosts, as a word of
// its ring.
#pragma once

#include "runtime/hal/message_waits.h"
#include "runtime/trace/ring_writer.h"

namespace piper::exec {

class RingWaits : public hal::MessageWaits {
 public:
  // `track`: of a ring, which outlives this.
  explicit RingWaits(trace::RingTrack track) : track_(track) {}

  void begin_exchange() override {
    const uint64_t now = track_.written();
    number_ = now == instruction_ ? number_ + 1 : 1;
    instruction_ = now;
  }
  void waits_for(const hal::Transfer& transfer) override {
    waits_ = true;
    track_.exchange(number_, true, transfer.direction == hal::Direction::kReceive, transfer.peer);
  }
  // Most exchanges need not wait, and then store nothing.
  void end_exchange() override {
    if (waits_) track_.exchange(number_, false, false, 0);
    waits_ = false;
  }

 private:
  const trace::RingTrack track_;
  uint64_t instruction_ = 0;  // events of the track when it began
  uint64_t number_ = 0;       // of the exchange in the instruction
  bool waits_ = false;
};

}  // namespace piper::exec
