// From when to when each buffer of the arena needs its bytes, as positions of a rank's issue order: from its first
// access on, and until its last one is over (the hard end). Where that is a message, a run that takes the bytes at once
// waits for it; kept for some passes of chunks longer (the soft ends), they are free when they are taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/emit/data_order.h"
#include "compiler/emit/trace.h"
#include "schemas/plan/life.h"

namespace piper::emit {

// As no instruction says when a message that no run waits for was sent, it counts as sent after so many passes.
constexpr size_t kMostPatience = 4;

struct Lives {
  std::vector<plan::Life> hard;  // [buffer of `buffers`], bytes are left 0
  struct SoftEnds {
    size_t life = 0;
    // After one pass more, two, ..; no later than the first run of another stream that knows the message to be
    // through. Ascending, from the hard end on.
    std::array<uint32_t, kMostPatience> ends{};
  };
  std::vector<SoftEnds> soft;  // of the lives that end in a message, in their order
};
// Each buffer of `buffers` is touched. What streams know is taken from the order of the data alone: events of bytes
// handed on come later, and can only end lives earlier.
Lives lives_of(const Trace& trace, const DataOrder& order, std::span<const int32_t> buffers, size_t num_streams);

}  // namespace piper::emit
