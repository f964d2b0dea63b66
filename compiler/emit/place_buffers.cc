#include "compiler/emit/place_buffers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <vector>

#include "compiler/emit/data_order.h"
#include "compiler/emit/event_names.h"
#include "compiler/emit/pack.h"
#include "compiler/emit/place_arena.h"
#include "compiler/emit/stream_clocks.h"

namespace piper::emit {
namespace {

// Bytes of the arena that were given back, with the accesses that their next owner must come after.
class FreedBytes {
 public:
  explicit FreedBytes(const DataOrder& order) : order_(order) {}

  void put(int64_t offset, int64_t bytes, int32_t owner) {
    const auto at = first_ending_after(offset);
    ranges_.insert(at, {offset, offset + bytes, owner});
  }
  // Removes [offset, offset + bytes) and appends the last accesses of those that had them.
  void take(int64_t offset, int64_t bytes, std::vector<uint32_t>& after) {
    const int64_t end = offset + bytes;
    const auto first = first_ending_after(offset);
    auto last = first;
    for (; last != ranges_.end() && last->begin < end; ++last) {
      const std::span<const uint32_t> closing = order_.closing_of(last->owner);
      after.insert(after.end(), closing.begin(), closing.end());
    }
    if (first == last) return;
    // The bytes of the first range before `offset`, and of the last range after `end`, stay free.
    const Range before{first->begin, offset, first->owner}, rest{end, std::prev(last)->end, std::prev(last)->owner};
    auto at = ranges_.erase(first, last);
    if (rest.begin < rest.end) at = ranges_.insert(at, rest);
    if (before.begin < before.end) ranges_.insert(at, before);
  }

 private:
  struct Range {
    int64_t begin = 0, end = 0;
    int32_t owner = -1;  // the buffer that had them last
  };
  std::vector<Range>::iterator first_ending_after(int64_t offset) {
    return std::partition_point(ranges_.begin(), ranges_.end(),
                                [offset](const Range& range) { return range.end <= offset; });
  }

  const DataOrder& order_;
  std::vector<Range> ranges_;  // ascending, disjoint
};

struct Events {
  std::vector<uint32_t> waits,
      first_wait{0};           // instruction i waits for waits[first_wait[i]] .. waits[first_wait[i + 1] - 1]
  std::vector<bool> recorded;  // [instruction]: an event follows it
};

// Orders what conflicts: accesses of one buffer, and a buffer's first access after the last ones of those that had its
// bytes before; `shares`: some have.
Events order_streams(const plan::RankPlan& plan, const Trace& trace, const DataOrder& order, int64_t alignment,
                     bool shares) {
  const std::vector<plan::Buffer>& buffers = plan.buffers.get();
  Events out;
  out.recorded.assign(trace.size(), false);
  FreedBytes freed(order);
  StreamClocks clocks(trace, plan.streams.size());
  std::vector<bool> taken(buffers.size(), false), given(buffers.size(), false);
  std::vector<uint32_t> after;
  const auto wait = [&](uint32_t j) {
    out.waits.push_back(j);
    out.recorded[j] = true;
  };
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const int32_t stream = trace.stream_of(i);
    const std::span<const uint32_t> needs = order.needs_of(i);
    after.assign(needs.begin(), needs.end());
    clocks.order(stream, after, wait);
    const auto each_once = [&](std::vector<bool>& seen, const auto& visit) {
      if (!shares) return;
      for (const Access& a : trace.accesses_of(i)) {
        if (buffers[a.buffer].cls != plan::BufferClass::kArena || seen[a.buffer]) continue;
        if (visit(a.buffer, align_up(std::max<int64_t>(buffers[a.buffer].bytes, 1), alignment))) seen[a.buffer] = true;
      }
    };
    each_once(taken, [&](int32_t b, int64_t bytes) {
      freed.take(buffers[b].offset, bytes, after);
      return true;
    });
    clocks.order(stream, after, wait);
    std::sort(out.waits.begin() + out.first_wait[i], out.waits.end());
    out.first_wait.push_back(static_cast<uint32_t>(out.waits.size()));
    clocks.advance(i);
    each_once(given, [&](int32_t b, int64_t bytes) {
      if (order.uses[b].last != i) return false;
      freed.put(buffers[b].offset, bytes, b);
      return true;
    });
  }
  return out;
}

}  // namespace

void place_persistent(plan::RankPlan& plan, int64_t alignment) {
  std::array<int64_t, plan::kNumBufferClasses> region{};
  for (plan::Buffer& buffer : plan.buffers.edit()) {
    if (buffer.cls == plan::BufferClass::kArena) continue;
    int64_t& size = region[static_cast<size_t>(buffer.cls)];
    buffer.offset = size;
    size += align_up(std::max<int64_t>(buffer.bytes, 1), alignment);
  }
}

void place_buffers(plan::RankPlan& plan, const Trace& trace, int64_t alignment, bool packs) {
  const DataOrder order = data_order(trace, plan.buffers.size());
  const Arena arena = packs ? place_arena(plan, trace, order, alignment) : spread_arena(plan, trace, order, alignment);
  const uint32_t n = trace.size();
  plan.arena_bytes = arena.bytes;
  std::vector<plan::Buffer>& buffers = plan.buffers.edit();
  for (size_t b = 0; b < buffers.size(); ++b) buffers[b].offset = arena.offsets[b];
  const Events events = order_streams(plan, trace, order, alignment, packs);
  EventNames names(plan);
  std::vector<int32_t> event_of(n, -1);
  for (uint32_t i = 0; i < n; ++i)
    if (events.recorded[i]) {
      event_of[i] = static_cast<int32_t>(plan.events.size());
      plan.events.push_back(names.name(trace.instructions[i].instruction.action));
    }
  std::vector<plan::Instruction>& instructions = plan.instructions.edit();
  instructions.reserve(n + events.waits.size() + plan.events.size());
  for (uint32_t i = 0; i < n; ++i) {
    const plan::Instruction& instruction = trace.instructions[i].instruction;
    for (uint32_t w = events.first_wait[i]; w < events.first_wait[i + 1]; ++w)
      instructions.push_back({instruction.stream, plan::Wait{event_of[events.waits[w]]}, instruction.provenance});
    instructions.push_back(instruction);
    if (events.recorded[i])
      instructions.push_back({instruction.stream, plan::Record{event_of[i]}, instruction.provenance});
  }
}

}  // namespace piper::emit
