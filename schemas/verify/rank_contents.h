// The contents of one rank's buffers during a step, and what became of those that the step began with.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/contents.h"

namespace piper::verify {

class RankContents {
 public:
  explicit RankContents(const plan::RankPlan& plan);

  // Sets what is there when the step begins.
  void begin(const plan::BufferRange& where, int64_t bytes, Content content);
  // What is in a range; what has been there since before the step counts as relied on.
  void take(const plan::BufferRange& where, int64_t bytes, Pieces& pieces);
  void put(const plan::BufferRange& where, const Pieces& pieces);
  void put(const plan::BufferRange& where, int64_t bytes, const Content& content);
  // Segments that fill the range, to change in place; call replaced() before changing one.
  BufferContents::Span cut(const plan::BufferRange& where, int64_t bytes) {
    return buffer(where.buffer).cut(where.offset, where.offset + bytes);
  }
  void replaced(int32_t buffer, BufferContents::Segment& segment);
  const BufferContents& at(int32_t index) const { return buffers_[static_cast<size_t>(index)]; }
  BufferContents& buffer(int32_t index) { return buffers_[static_cast<size_t>(index)]; }

  // What the step relied on and then replaced.
  struct Replaced {
    int32_t buffer = -1;
    int64_t begin = 0, end = 0;
    Content content;
  };
  const std::vector<Replaced>& replaced() const { return replaced_; }

  std::vector<int64_t> slice;  // [tensor] its first element that programs of this rank see; -1: none has read it yet

 private:
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  std::vector<BufferContents> buffers_;
  std::vector<Replaced> replaced_;
};

}  // namespace piper::verify
