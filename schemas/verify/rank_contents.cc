#include "schemas/verify/rank_contents.h"

#include <new>
#include <type_traits>

namespace piper::verify {

RankContents::RankContents(const plan::RankPlan& plan, const BufferSlots& slots) : plan_(&plan), slots_(&slots) {
  blocks_.resize((static_cast<size_t>(slots.count) + kBlock - 1) / kBlock);
  for (const int32_t index : slots.lasting) {
    const auto b = static_cast<size_t>(index);
    const auto all = [&](Content::What what) { begin({index, 0}, plan.buffers[b].bytes, Content{what}); };
    switch (plan.buffers[b].cls) {
      case plan::BufferClass::kGradient: all(Zero()); break;
      case plan::BufferClass::kTraining: all(Counter()); break;
      case plan::BufferClass::kState:
      case plan::BufferClass::kScalar: all(Other()); break;
      case plan::BufferClass::kArena:
      case plan::BufferClass::kParameter:
      case plan::BufferClass::kOptimizer:
      case plan::BufferClass::kConstant:
      case plan::BufferClass::kInput: break;
    }
  }
}

RankContents::Slot* RankContents::new_block() const {
  static_assert(std::is_trivially_destructible_v<Slot>);
  auto* const block = static_cast<Slot*>(memory_->bytes.allocate(kBlock * sizeof(Slot), alignof(Slot)));
  for (size_t i = 0; i < kBlock; ++i) new (&block[i]) Slot{BufferContents(0, *memory_), -1};
  return block;
}

void RankContents::begin(const plan::BufferRange& where, int64_t bytes, Content content) {
  content.start = true;
  buffer(where.buffer).write(where.offset, where.offset + bytes, content);
}

void RankContents::take(const plan::BufferRange& where, int64_t bytes, Pieces& pieces) {
  for (auto& segment : cut(where, bytes)) {
    segment.content.relied = segment.content.start;
    Piece piece{segment.end - segment.begin, segment.content};
    piece.content.start = piece.content.relied = false;
    append(pieces, piece);
  }
}

void RankContents::replaced(int32_t index, BufferContents::Segment& segment) {
  if (segment.content.relied) replaced_.push_back({index, segment.begin, segment.end, segment.content});
  segment.content.start = segment.content.relied = false;
}

void RankContents::put(const plan::BufferRange& where, const Pieces& pieces) {
  int64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.bytes;
  for (auto& segment : cut(where, bytes)) replaced(where.buffer, segment);
  buffer(where.buffer).write(where.offset, pieces);
}

void RankContents::put(const plan::BufferRange& where, int64_t bytes, const Content& content) {
  // Nearly always: in the place of one segment.
  if (auto* segment = buffer(where.buffer).just(where.offset, where.offset + bytes)) {
    replaced(where.buffer, *segment);
    segment->content = content;
    return;
  }
  for (auto& segment : cut(where, bytes)) replaced(where.buffer, segment);
  buffer(where.buffer).write(where.offset, where.offset + bytes, content);
}

}  // namespace piper::verify
