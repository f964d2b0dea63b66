// Offsets of lives in one block of bytes, so that no two that meet in time share a byte and the block is small: dynamic
// storage allocation with all lives known, which is NP-hard. Used for the arena of a rank (place_buffers.h), for the
// workspace of a program and for what one program saves for another.
//
// Lives are placed one after the other, each at the lowest offset that those placed before it leave free. What matters
// is their order, so several are tried:
//   size         the largest first, as XLA's heap simulator does (global decreasing size);
//   contention   those that are alive where the most bytes are, then the largest, as TelaMalloc's search begins
//                (Maas et al., "TelaMalloc", ASPLOS 2023);
//   size x life  what takes the most of the plane of bytes and time first.
// Beside them lives are placed as they begin, each in the smallest gap that it fits, as an allocator would that does
// not know what comes: rarely the best, but where many of the same sizes follow each other. The best is taken. Where it
// needs more than 1.02 of the bytes that are alive together, the first two orders are repaired, until one needs at most
// 1.01: what cannot be placed below the best block so far moves to the front, by half of the way or another part of it,
// and what came before its new place stays where it is.
//
// The effort of repairs is bounded by a count of lives looked at, not by a clock; there are no random numbers, and ties
// go by index: every machine finds the same offsets. An order of n lives takes n log n, and so does placing many of
// them (taken_bytes.h): 50 milliseconds for 30,000. Placing fewer than 2,000, and repairs, take n x n / 64 comparisons
// of blocks of times: a millisecond for a thousand lives; all repairs together some milliseconds, and one round more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schemas/plan/life.h"

namespace piper::emit {

constexpr int64_t kLine = 64;  // bytes: a cache line, an AVX-512 register; what values of programs are aligned to

constexpr int64_t align_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

struct Packed {
  std::vector<int64_t> offsets;  // [life]
  int64_t bytes = 0;             // of the block
};
// Bytes of lives are rounded up to `alignment`, zero to one of it, so that what lives at one time has distinct offsets.
// Ends come after beginnings.
Packed pack(std::span<const plan::Life> lives, int64_t alignment);
// Offsets in a block of at most `limit` bytes; nothing where none are found, with a thirtieth of the effort of `pack`.
std::optional<Packed> pack_within(std::span<const plan::Life> lives, int64_t alignment, int64_t limit);

}  // namespace piper::emit
