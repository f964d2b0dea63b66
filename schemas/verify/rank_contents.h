// The contents of one rank's buffers during a step, and what became of those that the step began with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/buffer_slots.h"
#include "schemas/verify/contents.h"

namespace piper::verify {

class RankContents {
 public:
  // Both outlive it. Of a buffer without a slot of its own there is what was put since another one had its slot: the
  // contents of what an instruction still names.
  RankContents(const plan::RankPlan& plan, const BufferSlots& slots);

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
  const BufferContents& at(int32_t index) const { return slot(index); }
  BufferContents& buffer(int32_t index) { return slot(index); }
  // The buffers of which there are contents when the step ends.
  const std::vector<int32_t>& lasting() const { return slots_->lasting; }

  // What the step relied on and then replaced.
  struct Replaced {
    int32_t buffer = -1;
    int64_t begin = 0, end = 0;
    Content content;
  };
  const std::vector<Replaced>& replaced() const { return replaced_; }

  // Calls differs(buffer) for buffers that this rank, or another one of the same work, has in a slot, unless both have
  // there what is the same(segment, segment) of the other.
  template <class Same, class Differs>
  void compare(const RankContents& other, const Same& same, const Differs& differs) const {
    for (size_t slot = 0; slot < contents_.size(); ++slot) {
      const Slot &a = contents_[slot], &b = other.contents_[slot];
      const auto of_a = a.contents.segments(), of_b = b.contents.segments();
      if (a.buffer == b.buffer && std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), same)) continue;
      if (a.buffer >= 0) differs(a.buffer);
      if (b.buffer >= 0) differs(b.buffer);
    }
  }
  // Takes over what another rank of the same work has come to, each content changed by `change`, except buffers that
  // are `own`, which neither has touched; of what that one has replaced what comes after the first `replaced_before`.
  template <class Change>
  void go_on_as(const RankContents& other, const std::vector<bool>& own, size_t replaced_before, Change& change) {
    const auto changed = [&change](const Content& content) { return change(content); };
    for (size_t slot = 0; slot < contents_.size(); ++slot) {
      const Slot& from = other.contents_[slot];
      if (from.buffer < 0 || own[static_cast<size_t>(from.buffer)]) continue;
      contents_[slot].contents.set(from.contents, changed);
      contents_[slot].buffer = from.buffer;
    }
    for (size_t i = replaced_before; i < other.replaced_.size(); ++i) {
      replaced_.push_back(other.replaced_[i]);
      replaced_.back().content = change(replaced_.back().content);
    }
    slice = other.slice;
  }

  std::vector<int64_t> slice;  // [tensor] its first element that programs of this rank see; -1: none has read it yet

 private:
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  struct Slot {
    BufferContents contents;
    int32_t buffer = -1;
  };
  BufferContents& slot(int32_t index) const {
    Slot& slot = contents_[static_cast<size_t>(slots_->slot_of[static_cast<size_t>(index)])];
    if (slot.buffer != index) {
      slot.contents.reset(plan_->buffers[static_cast<size_t>(index)].bytes);
      slot.buffer = index;
    }
    return slot.contents;
  }

  const plan::RankPlan* plan_;
  const BufferSlots* slots_;
  mutable std::vector<Slot> contents_;  // [slot]; reading one of another buffer empties it
  std::vector<Replaced> replaced_;
};

}  // namespace piper::verify
