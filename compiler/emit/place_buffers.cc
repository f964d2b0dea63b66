#include "compiler/emit/place_buffers.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include "compiler/emit/event_names.h"
#include "compiler/emit/offset_allocator.h"

namespace piper::emit {
namespace {

// An access that a later one must come after.
struct Past {
  int32_t stream = -1;
  uint32_t instruction = 0;
};

// The last accesses of each buffer: the last write, and of each stream the last read since.
class Histories {
 public:
  explicit Histories(size_t buffers) : of_(buffers) {}

  void write(int32_t buffer, Past access) {
    Of& h = of_[buffer];
    h.write = access;
    if (h.first_read < 0) return;
    int32_t tail = h.first_read;
    while (reads_[tail].next >= 0) tail = reads_[tail].next;
    reads_[tail].next = spare_;
    spare_ = h.first_read;
    h.first_read = -1;
  }
  void read(int32_t buffer, Past access) {
    Of& h = of_[buffer];
    for (int32_t r = h.first_read; r >= 0; r = reads_[r].next)
      if (reads_[r].access.stream == access.stream) {
        reads_[r].access = access;
        return;
      }
    int32_t slot = spare_;
    if (slot >= 0) {
      spare_ = reads_[slot].next;
    } else {
      slot = static_cast<int32_t>(reads_.size());
      reads_.emplace_back();
    }
    reads_[slot] = {access, h.first_read};
    h.first_read = slot;
  }
  template <class Visit>
  void each_read(int32_t buffer, const Visit& visit) const {
    for (int32_t r = of_[buffer].first_read; r >= 0; r = reads_[r].next) visit(reads_[r].access);
  }
  template <class Visit>
  void each_write(int32_t buffer, const Visit& visit) const {
    if (of_[buffer].write.stream >= 0) visit(of_[buffer].write);
  }

 private:
  struct Of {
    Past write;
    int32_t first_read = -1;
  };
  struct Read {
    Past access;
    int32_t next = -1;
  };
  std::vector<Of> of_;
  std::vector<Read> reads_;  // lists, and the list of unused ones
  int32_t spare_ = -1;
};

// Accesses of a buffer that gave its bytes back: a stretch of one list that all stretches share.
struct Stretch {
  uint32_t begin = 0, end = 0;
};

// Bytes of the arena that were given back, with the accesses that their next owner must come after.
class FreedBytes {
 public:
  explicit FreedBytes(const std::vector<Past>& past) : past_(past) {}

  void put(int64_t offset, int64_t bytes, Stretch last) {
    const auto at = first_ending_after(offset);
    ranges_.insert(at, {offset, offset + bytes, last});
  }
  // Removes [offset, offset + bytes) and appends its accesses.
  void take(int64_t offset, int64_t bytes, std::vector<uint32_t>& after) {
    const int64_t end = offset + bytes;
    const auto first = first_ending_after(offset);
    auto last = first;
    for (; last != ranges_.end() && last->begin < end; ++last)
      for (uint32_t i = last->last.begin; i < last->last.end; ++i) after.push_back(past_[i].instruction);
    if (first == last) return;
    // The bytes of the first range in front of `offset`, and of the last range behind `end`, stay free.
    const Range before{first->begin, offset, first->last}, behind{end, std::prev(last)->end, std::prev(last)->last};
    auto at = ranges_.erase(first, last);
    if (behind.begin < behind.end) at = ranges_.insert(at, behind);
    if (before.begin < before.end) ranges_.insert(at, before);
  }

 private:
  struct Range {
    int64_t begin = 0, end = 0;
    Stretch last;
  };
  std::vector<Range>::iterator first_ending_after(int64_t offset) {
    return std::partition_point(ranges_.begin(), ranges_.end(),
                                [offset](const Range& range) { return range.end <= offset; });
  }

  const std::vector<Past>& past_;
  std::vector<Range> ranges_;  // ascending, disjoint
};

// No instruction tells when a message that no run waits for was sent: behind this many later runs it counts as sent.
constexpr size_t kPatienceRuns = 4;

// Bytes whose last access is a communication, kept back from the arena: a run that took them at once would wait for the
// message.
class HeldBytes {
 public:
  explicit HeldBytes(const std::vector<Past>& past) : past_(past) {}

  void put(int64_t offset, int64_t bytes, Stretch last, uint32_t now) { held_.push_back({offset, bytes, now, last}); }
  // Gives back what is complete for the stream of a run that knows `known` ([stream] instructions), and what was put
  // before `patience_ended`.
  void release(const uint32_t* known, uint32_t patience_ended, OffsetAllocator& arena) {
    std::erase_if(held_, [&](const Held& held) {
      const bool complete = std::all_of(past_.begin() + held.last.begin, past_.begin() + held.last.end,
                                        [&](const Past& access) { return known[access.stream] > access.instruction; });
      if (complete || held.since < patience_ended) arena.release(held.offset, held.bytes);
      return complete || held.since < patience_ended;
    });
  }

 private:
  struct Held {
    int64_t offset = 0, bytes = 0;
    uint32_t since = 0;  // the instruction that gave them back
    Stretch last;
  };
  const std::vector<Past>& past_;
  std::vector<Held> held_;
};

struct Placement {
  int64_t arena_bytes = 0;
  std::vector<int64_t> offsets;  // [buffer], 0 outside the arena
  std::vector<uint32_t> waits,
      first_wait;              // instruction i waits for waits[first_wait[i]] .. waits[first_wait[i + 1] - 1]
  std::vector<bool> recorded;  // [instruction]: an event follows it
};

Placement place(const plan::RankPlan& plan, const Trace& trace, int64_t alignment) {
  const std::vector<plan::Buffer>& buffers = plan.buffers.get();
  const auto stream_of = [&](size_t i) { return trace.instructions[i].instruction.stream; };
  const auto is_run = [&](size_t i) {
    return std::holds_alternative<plan::Run>(trace.instructions[i].instruction.action);
  };
  const auto in_arena = [&](int32_t b) { return buffers[static_cast<size_t>(b)].cls == plan::BufferClass::kArena; };
  const auto bytes_of = [&](int32_t b) {
    return align_up(std::max<int64_t>(buffers[static_cast<size_t>(b)].bytes, 1), alignment);
  };
  const size_t n = trace.size(), num_streams = plan.streams.size();
  constexpr uint32_t kNever = 0xffffffffu;
  std::vector<uint32_t> first(buffers.size(), kNever), last(buffers.size(), 0);
  for (uint32_t i = 0; i < n; ++i)
    for (const Access& a : trace.accesses_of(i)) {
      if (first[a.buffer] == kNever) first[a.buffer] = i;
      last[a.buffer] = i;
    }

  Placement out;
  out.offsets.assign(buffers.size(), 0);
  out.first_wait.assign(n + 1, 0);
  out.recorded.assign(n, false);
  OffsetAllocator arena;
  std::vector<Past> past;  // of buffers that gave their bytes back
  FreedBytes freed(past);
  HeldBytes held(past);
  Histories history(buffers.size());
  // clock[i * num_streams + s] = 1 + the last instruction of stream s known to be complete once i is.
  std::vector<uint32_t> clock(n * num_streams, 0), stream_clock(num_streams * num_streams, 0);
  std::vector<bool> placed(buffers.size(), false);
  std::vector<uint32_t> after;
  std::vector<uint32_t> recent_runs;  // issue positions
  size_t at_ordered = 0;
  const auto order_after = [&](int32_t stream) {
    std::sort(after.begin(), after.end(), std::greater<>());
    uint32_t* known = &stream_clock[static_cast<size_t>(stream) * num_streams];
    for (uint32_t j : after) {
      const int32_t other = stream_of(j);
      if (other == stream || known[other] > j) continue;
      out.waits.push_back(j);
      out.recorded[j] = true;
      const uint32_t* seen = &clock[static_cast<size_t>(j) * num_streams];
      for (size_t s = 0; s < num_streams; ++s) known[s] = std::max(known[s], seen[s]);
    }
    after.clear();
  };
  for (uint32_t i = 0; i < n; ++i) {
    const std::span<const Access> accesses = trace.accesses_of(i);
    const int32_t stream = stream_of(i);
    const auto after_other = [&](const Past& access) {
      if (access.stream != stream) after.push_back(access.instruction);
    };
    uint32_t* known = &stream_clock[static_cast<size_t>(stream) * num_streams];
    if (is_run(i)) recent_runs.push_back(i);
    for (; at_ordered < trace.ordered.size() && trace.ordered[at_ordered].first == i; ++at_ordered) {
      const uint32_t j = trace.ordered[at_ordered].second;
      after_other({stream_of(j), j});
    }
    for (const Access& a : accesses) {
      history.each_write(a.buffer, after_other);
      if (a.writes) history.each_read(a.buffer, after_other);
    }
    order_after(stream);
    // A message's own stream knows that it is through, the runs that would take its bytes do not.
    if (is_run(i))
      held.release(known, recent_runs.size() > kPatienceRuns ? recent_runs[recent_runs.size() - 1 - kPatienceRuns] : 0,
                   arena);
    for (const Access& a : accesses) {
      if (!in_arena(a.buffer) || first[a.buffer] != i || placed[a.buffer]) continue;
      placed[a.buffer] = true;
      out.offsets[a.buffer] = arena.allocate(bytes_of(a.buffer));
      freed.take(out.offsets[a.buffer], bytes_of(a.buffer), after);
    }
    order_after(stream);
    std::sort(out.waits.begin() + out.first_wait[i], out.waits.end());
    out.first_wait[i + 1] = static_cast<uint32_t>(out.waits.size());
    known[stream] = i + 1;
    std::copy(known, known + num_streams, &clock[static_cast<size_t>(i) * num_streams]);
    for (const Access& a : accesses)
      if (a.writes) history.write(a.buffer, {stream, i});
      else history.read(a.buffer, {stream, i});
    for (const Access& a : accesses) {
      if (!in_arena(a.buffer) || last[a.buffer] != i || first[a.buffer] == kNever) continue;
      const int64_t offset = out.offsets[a.buffer], bytes = bytes_of(a.buffer);
      Stretch ends{static_cast<uint32_t>(past.size()), 0};
      const auto keep = [&](const Past& access) { past.push_back(access); };
      history.each_write(a.buffer, keep);
      history.each_read(a.buffer, keep);
      ends.end = static_cast<uint32_t>(past.size());
      freed.put(offset, bytes, ends);
      if (std::any_of(past.begin() + ends.begin, past.end(),
                      [&](const Past& access) { return !is_run(access.instruction); }))
        held.put(offset, bytes, ends, i);
      else arena.release(offset, bytes);
      first[a.buffer] = kNever;  // a buffer named twice by one instruction is given back once
    }
  }
  out.arena_bytes = arena.high_water();
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

void place_buffers(plan::RankPlan& plan, const Trace& trace, int64_t alignment) {
  const Placement placement = place(plan, trace, alignment);
  const auto n = static_cast<uint32_t>(trace.size());
  plan.arena_bytes = placement.arena_bytes;
  std::vector<plan::Buffer>& buffers = plan.buffers.edit();
  for (size_t b = 0; b < buffers.size(); ++b) buffers[b].offset = placement.offsets[b];
  EventNames names(plan);
  std::vector<int32_t> event_of(n, -1);
  for (uint32_t i = 0; i < n; ++i)
    if (placement.recorded[i]) {
      event_of[i] = static_cast<int32_t>(plan.events.size());
      plan.events.push_back(names.name(trace.instructions[i].instruction.action));
    }
  std::vector<plan::Instruction>& instructions = plan.instructions.edit();
  instructions.reserve(n + placement.waits.size() + plan.events.size());
  for (uint32_t i = 0; i < n; ++i) {
    const plan::Instruction& instruction = trace.instructions[i].instruction;
    for (uint32_t w = placement.first_wait[i]; w < placement.first_wait[i + 1]; ++w)
      instructions.push_back({instruction.stream, plan::Wait{event_of[placement.waits[w]]}, instruction.provenance});
    instructions.push_back(instruction);
    if (placement.recorded[i])
      instructions.push_back({instruction.stream, plan::Record{event_of[i]}, instruction.provenance});
  }
}

}  // namespace piper::emit
