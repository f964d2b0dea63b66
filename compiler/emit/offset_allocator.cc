#include "compiler/emit/offset_allocator.h"

#include <algorithm>

#include "schemas/base/check.h"

namespace piper::emit {

int64_t OffsetAllocator::allocate(int64_t bytes) {
  bytes = align(std::max<int64_t>(bytes, 1));
  // The smallest range that is large enough, the first of several.
  Range* best = nullptr;
  for (Range& range : free_)
    if (range.bytes >= bytes && (best == nullptr || range.bytes < best->bytes)) best = &range;
  if (best != nullptr) {
    const int64_t offset = best->offset;
    best->offset += bytes;
    best->bytes -= bytes;
    if (best->bytes == 0) free_.erase(free_.begin() + (best - free_.data()));
    return offset;
  }
  // Nothing fits: grow, beginning in a free range at the end of the block where there is one.
  int64_t offset = size_;
  if (!free_.empty() && free_.back().offset + free_.back().bytes == size_) {
    offset = free_.back().offset;
    free_.pop_back();
  }
  size_ = offset + bytes;
  return offset;
}

void OffsetAllocator::release(int64_t offset, int64_t bytes) {
  bytes = align(std::max<int64_t>(bytes, 1));
  auto next = std::lower_bound(free_.begin(), free_.end(), offset,
                               [](const Range& range, int64_t at) { return range.offset < at; });
  PIPER_CHECK(next == free_.end() || next->offset >= offset + bytes, "released twice: offset ", offset);
  const bool joins_next = next != free_.end() && next->offset == offset + bytes;
  const bool joins_before = next != free_.begin() && (next - 1)->offset + (next - 1)->bytes == offset;
  if (joins_before && joins_next) {
    (next - 1)->bytes += bytes + next->bytes;
    free_.erase(next);
  } else if (joins_before) {
    (next - 1)->bytes += bytes;
  } else if (joins_next) {
    next->offset = offset;
    next->bytes += bytes;
  } else {
    free_.insert(next, {offset, bytes});
  }
}

}  // namespace piper::emit
