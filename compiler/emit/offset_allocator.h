// Offsets inside one block of bytes, handed out and taken back in the order of a straight-line
// program: best fit, free ranges merged, the block grows where nothing fits. Used for the workspace of
// a program and for the arena of a rank. Deterministic; linear in the number of free ranges, some tens
// in real plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace piper::emit {

constexpr int64_t align_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

class OffsetAllocator {
 public:
  static constexpr int64_t kAlignment = 64;  // bytes: one cache line, one AVX-512 register
  static int64_t align(int64_t bytes) { return align_up(bytes, kAlignment); }

  // Bytes are rounded up to the alignment; zero bytes take one line, so that every range is distinct.
  int64_t allocate(int64_t bytes);
  void release(int64_t offset, int64_t bytes);
  int64_t high_water() const { return size_; }

 private:
  struct Range {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Range> free_;  // by offset; no two touch
  int64_t size_ = 0;
};

}  // namespace piper::emit
