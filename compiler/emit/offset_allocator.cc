#include "compiler/emit/offset_allocator.h"

#include <algorithm>
#include <iterator>

#include "schemas/base/check.h"

namespace piper::emit {

void OffsetAllocator::insert(int64_t offset, int64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void OffsetAllocator::erase(std::pmr::map<int64_t, int64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  by_offset_.erase(range);
}

int64_t OffsetAllocator::allocate(int64_t bytes) {
  bytes = align(std::max<int64_t>(bytes, 1));
  auto fit = by_size_.lower_bound({bytes, 0});
  if (fit != by_size_.end()) {
    const auto [found, offset] = *fit;
    erase(by_offset_.find(offset));
    if (found > bytes) insert(offset + bytes, found - bytes);
    return offset;
  }
  // Nothing fits: grow, beginning in a free range at the end of the block where there is one.
  int64_t offset = size_;
  if (!by_offset_.empty()) {
    auto last = std::prev(by_offset_.end());
    if (last->first + last->second == size_) {
      offset = last->first;
      erase(last);
    }
  }
  size_ = offset + bytes;
  return offset;
}

void OffsetAllocator::release(int64_t offset, int64_t bytes) {
  bytes = align(std::max<int64_t>(bytes, 1));
  auto next = by_offset_.lower_bound(offset);
  PIPER_CHECK(next == by_offset_.end() || next->first >= offset + bytes, "released twice: offset ", offset);
  if (next != by_offset_.end() && next->first == offset + bytes) {
    bytes += next->second;
    auto merged = next++;
    erase(merged);
  }
  if (next != by_offset_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      erase(before);
    }
  }
  insert(offset, bytes);
}

}  // namespace piper::emit
