// How an all_reduce and a reduce_scatter of the CPU cut their work, and with it the scratch memory they need (by
// instruction: collective_costs.h) and the messages that they are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schemas/plan/plan.h"

namespace piper::plan {

// Bytes of one member's segment that are summed at a time: large enough to hide a hand-over between
// threads, small enough that the parts of all members stay in a cache and in 4 MiB of scratch.
constexpr int64_t all_reduce_piece_bytes(int64_t group_size) {
  const int64_t others = std::max<int64_t>(group_size - 1, 1);
  return std::clamp<int64_t>((int64_t{4} << 20) / others, int64_t{64} << 10, int64_t{1} << 20) / 64 * 64;
}

// Bytes that a member sums of an all_reduce of `count` elements.
constexpr int64_t segment_bytes(int64_t count, int64_t group_size, int64_t element_bytes) {
  return (count + group_size - 1) / group_size * element_bytes;
}
// In how many pieces a member sums a segment. Its messages of a piece are sent when the one before is summed.
constexpr int64_t pieces_of_segment(int64_t bytes, int64_t group_size) {
  const int64_t piece = all_reduce_piece_bytes(group_size);
  return std::max<int64_t>((bytes + piece - 1) / piece, 1);
}

// Bytes of `count` elements in the type in which they travel, where that is not their own; 0 where it is. The scratch
// of the sum begins with them.
constexpr int64_t staged_bytes(int64_t count, const SumTypes& types) {
  return types.message == types.data ? 0 : (count * dtype_bytes(types.message) + 63) / 64 * 64;
}

// Scratch of one all_reduce of `count` elements of `element_bytes` bytes.
constexpr int64_t all_reduce_scratch_bytes(int64_t count, int64_t group_size, int64_t element_bytes) {
  if (group_size <= 1 || count <= 0) return 0;
  const int64_t piece = std::min(segment_bytes(count, group_size, element_bytes), all_reduce_piece_bytes(group_size));
  return (group_size - 1) * ((piece + 63) / 64 * 64);
}

// Scratch of one reduce_scatter of `count` elements a member.
constexpr int64_t reduce_scatter_scratch_bytes(int64_t count, int64_t group_size, int64_t element_bytes) {
  return all_reduce_scratch_bytes(count * group_size, group_size, element_bytes);
}

}  // namespace piper::plan
