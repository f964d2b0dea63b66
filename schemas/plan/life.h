// From when to when something needs its bytes, at which positions of an issue order, and where the most are needed.
// No arrangement of the bytes takes less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace piper::plan {

struct Life {
  uint32_t first = 0, end = 0;  // positions [first, end)
  int64_t bytes = 0;
  bool meets(const Life& other) const { return first < other.end && other.first < end; }
};
struct Fullest {
  uint32_t position = 0;  // the first with the most
  int64_t bytes = 0;
};
// n log n.
Fullest fullest(std::span<const Life> lives);

}  // namespace piper::plan
