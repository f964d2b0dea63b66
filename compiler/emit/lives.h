// From when to when each buffer of the arena needs its bytes, as positions of a rank's issue order: from its first
// access on, and until its last one is over (the hard end) or, where that is a message, until no run would wait for it
// (the soft end: schemas/plan/held_messages.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/emit/data_order.h"
#include "compiler/emit/trace.h"
#include "schemas/plan/life.h"

namespace piper::emit {

// [buffer of `buffers`], each of which is touched; bytes are left 0. `patience`: runs, from plan::kMostPatience down;
// 0: all ends are hard. What streams know is taken from the order of the data alone: events of bytes handed on come
// later, and can only end lives earlier.
std::vector<plan::Life> lives_of(const Trace& trace, const DataOrder& order, std::span<const int32_t> buffers,
                                 size_t num_streams, int patience);

}  // namespace piper::emit
