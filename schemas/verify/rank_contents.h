// The contents of one rank's buffers during a step, and what became of those that the step began with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
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
    for (size_t block = 0; block < blocks_.size(); ++block) {
      if (blocks_[block] == nullptr && other.blocks_[block] == nullptr) continue;
      for (size_t in_block = 0; in_block < kBlock; ++in_block) {
        const Slot &a = slot_at(block, in_block), &b = other.slot_at(block, in_block);
        const auto of_a = a.contents.segments(), of_b = b.contents.segments();
        if (a.buffer == b.buffer && std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), same)) continue;
        if (a.buffer >= 0) differs(a.buffer);
        if (b.buffer >= 0) differs(b.buffer);
      }
    }
  }
  // Takes over what another rank of the same work, whose next instruction is `next`, has come to, each content changed
  // by `change`, except buffers that are `own`, which neither has touched, and those that no instruction from `next` on
  // names; of what that one has replaced what comes after the first `replaced_before`.
  template <class Change>
  void go_on_as(const RankContents& other, size_t next, const std::vector<bool>& own, size_t replaced_before,
                Change& change) {
    const auto changed = [&change](const Content& content) { return change(content); };
    for (size_t block = 0; block < blocks_.size(); ++block) {
      if (other.blocks_[block] == nullptr) continue;
      for (size_t in_block = 0; in_block < kBlock; ++in_block) {
        const Slot& from = other.slot_at(block, in_block);
        if (from.buffer < 0 || own[static_cast<size_t>(from.buffer)] ||
            slots_->last_named[static_cast<size_t>(from.buffer)] < next)
          continue;
        Slot& slot = slot_at(block, in_block);
        slot.contents.set(from.contents, changed);
        slot.buffer = from.buffer;
      }
    }
    for (size_t i = replaced_before; i < other.replaced_.size(); ++i) {
      replaced_.push_back(other.replaced_[i]);
      replaced_.back().content = change(replaced_.back().content);
    }
    slice = other.slice;
  }

  std::vector<int64_t> slice;  // [tensor] its first element that programs of this rank see; -1: none has read it yet

 private:
  struct Slot {
    BufferContents contents;
    int32_t buffer = -1;
  };
  // Slots are made by the block, when one of them is asked for: of thousands of ranks nearly all have contents in few.
  static constexpr size_t kBlock = 32;
  Slot& slot_at(size_t block, size_t in_block) const {
    Slot*& slots = blocks_[block];
    if (slots == nullptr) slots = new_block();
    return slots[in_block];
  }
  Slot* new_block() const;
  BufferContents& slot(int32_t index) const {
    const auto at = static_cast<size_t>(slots_->slot_of[static_cast<size_t>(index)]);
    Slot& slot = slot_at(at / kBlock, at % kBlock);
    if (slot.buffer != index) {
      slot.contents.reset(plan_->buffers[static_cast<size_t>(index)].bytes);
      slot.buffer = index;
    }
    return slot.contents;
  }

  const plan::RankPlan* plan_;
  const BufferSlots* slots_;
  std::unique_ptr<BufferContents::Memory> memory_ = std::make_unique<BufferContents::Memory>();
  mutable std::vector<Slot*> blocks_;  // in `memory_`; reading a slot of another buffer empties it
  std::vector<Replaced> replaced_;
};

}  // namespace piper::verify
