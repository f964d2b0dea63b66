// Offsets inside one block of bytes, handed out and taken back in the order of a straight-line
// program: best fit, free ranges merged, the block grows where nothing fits. Used for the workspace of
// a program and for the arena of a rank. Deterministic; O(log n) per call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <utility>

namespace piper::emit {

class OffsetAllocator {
 public:
  static constexpr int64_t kAlignment = 64;  // bytes: one cache line, one AVX-512 register
  static int64_t align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  OffsetAllocator() = default;
  OffsetAllocator(OffsetAllocator&&) = default;   // no assignment: the maps stay with their memory

  // Bytes are rounded up to the alignment; zero bytes take one line, so that every range is distinct.
  int64_t allocate(int64_t bytes);
  void release(int64_t offset, int64_t bytes);
  int64_t high_water() const { return size_; }

 private:
  void insert(int64_t offset, int64_t bytes);
  void erase(std::pmr::map<int64_t, int64_t>::iterator range);
  std::unique_ptr<std::pmr::unsynchronized_pool_resource> memory_ = std::make_unique<std::pmr::unsynchronized_pool_resource>();
  std::pmr::map<int64_t, int64_t> by_offset_{memory_.get()};             // offset -> bytes of a free range
  std::pmr::set<std::pair<int64_t, int64_t>> by_size_{memory_.get()};    // (bytes, offset)
  int64_t size_ = 0;
};

}  // namespace piper::emit
