// What the accesses of a rank ask for before any byte is handed from one buffer to another: which instructions each
// must come after, and when each buffer is first and last touched.
//
// Two accesses of one buffer conflict where one of them writes. Looking at the last write of a buffer and at the last
// read of each stream since is enough: what came before is ordered before those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/emit/trace.h"

namespace piper::emit {

struct DataOrder {
  struct Uses {
    bool touched = false;
    uint32_t first = 0, last = 0;  // instructions
    // The last write and each stream's last read since, once `last` is over: whoever takes the buffer's bytes comes
    // after all of them. A stretch of `closing`.
    uint32_t closing_begin = 0, closing_end = 0;
  };
  std::vector<Uses> uses;                       // [buffer]
  std::vector<uint32_t> closing;                // instructions
  std::vector<uint32_t> needs, needs_begin{0};  // see needs_of

  // The instructions of other streams that instruction i must come after.
  std::span<const uint32_t> needs_of(uint32_t i) const {
    return {needs.data() + needs_begin[i], needs.data() + needs_begin[i + 1]};
  }
  std::span<const uint32_t> closing_of(int32_t buffer) const {
    const Uses& of = uses[static_cast<size_t>(buffer)];
    return {closing.data() + of.closing_begin, closing.data() + of.closing_end};
  }
};
// Linear in accesses x streams.
DataOrder data_order(const Trace& trace, size_t num_buffers);

}  // namespace piper::emit
