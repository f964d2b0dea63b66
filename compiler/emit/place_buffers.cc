#include "compiler/emit/place_buffers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "compiler/emit/offset_allocator.h"

namespace piper::emit {
namespace {

// The last accesses of a buffer, per stream: what a later access must come after.
struct History {
  std::vector<std::pair<int32_t, uint32_t>> writes, reads;  // (stream, instruction)
};

void note(std::vector<std::pair<int32_t, uint32_t>>& list, int32_t stream, uint32_t instruction) {
  for (auto& entry : list)
    if (entry.first == stream) {
      entry.second = instruction;
      return;
    }
  list.emplace_back(stream, instruction);
}

// Bytes of the arena that were given back, with the accesses that their next owner must come after.
class FreedBytes {
 public:
  void put(int64_t offset, int64_t bytes, const History& history) {
    std::vector<uint32_t> last;
    for (const auto& [stream, instruction] : history.writes) last.push_back(instruction);
    for (const auto& [stream, instruction] : history.reads) last.push_back(instruction);
    ranges_[offset] = {offset + bytes, std::move(last)};
  }
  // Removes [offset, offset + bytes) and appends its accesses.
  void take(int64_t offset, int64_t bytes, std::vector<uint32_t>& after) {
    const int64_t end = offset + bytes;
    auto it = ranges_.upper_bound(offset);
    if (it != ranges_.begin() && std::prev(it)->second.end > offset) --it;
    while (it != ranges_.end() && it->first < end) {
      const int64_t first = it->first;
      Range range = std::move(it->second);
      it = ranges_.erase(it);
      after.insert(after.end(), range.last.begin(), range.last.end());
      if (first < offset) ranges_[first] = {offset, range.last};
      if (range.end > end) it = ranges_.emplace(end, Range{range.end, range.last}).first;
    }
  }

 private:
  struct Range {
    int64_t end = 0;
    std::vector<uint32_t> last;
  };
  std::map<int64_t, Range> ranges_;  // by first byte, disjoint
};

// Nothing says when a message that no run waits for is through: after this many later runs it is taken for sent.
constexpr size_t kPatienceRuns = 4;

// Bytes whose last access is a communication, kept back from the arena: a run that took them at once would wait for the message.
class HeldBytes {
 public:
  void put(int64_t offset, int64_t bytes, const History& history, uint32_t now) {
    held_.push_back({offset, bytes, now, {}});
    for (const auto* accesses : {&history.writes, &history.reads})
      held_.back().last.insert(held_.back().last.end(), accesses->begin(), accesses->end());
  }
  // Gives back what is complete for the stream of a run that knows `known` ([stream] instructions), and what was put before `patience_ended`.
  void release(const uint32_t* known, uint32_t patience_ended, OffsetAllocator& arena) {
    std::erase_if(held_, [&](const Held& held) {
      const bool complete = std::all_of(held.last.begin(), held.last.end(), [&](const auto& access) { return known[access.first] > access.second; });
      if (complete || held.since < patience_ended) arena.release(held.offset, held.bytes);
      return complete || held.since < patience_ended;
    });
  }

 private:
  struct Held {
    int64_t offset = 0, bytes = 0;
    uint32_t since = 0;                                // the instruction that gave them back
    std::vector<std::pair<int32_t, uint32_t>> last;    // (stream, instruction)
  };
  std::vector<Held> held_;
};

}  // namespace

void place_persistent(plan::RankPlan& plan) {
  std::array<int64_t, 8> region{};
  for (plan::Buffer& buffer : plan.buffers) {
    if (buffer.cls == plan::BufferClass::kArena) continue;
    int64_t& size = region[static_cast<size_t>(buffer.cls)];
    buffer.offset = size;
    size += OffsetAllocator::align(std::max<int64_t>(buffer.bytes, 1));
  }
}

void place_buffers(plan::RankPlan& plan, std::vector<TracedInstruction>&& traced) {
  const size_t n = traced.size(), num_streams = plan.streams.size();
  const auto ends_with_message = [&](const History& history) {
    const auto is_message = [&](const auto& access) { return !std::holds_alternative<plan::Run>(traced[access.second].instruction.action); };
    return std::any_of(history.reads.begin(), history.reads.end(), is_message) || std::any_of(history.writes.begin(), history.writes.end(), is_message);
  };
  constexpr uint32_t kNever = 0xffffffffu;
  std::vector<uint32_t> first(plan.buffers.size(), kNever), last(plan.buffers.size(), 0);
  for (uint32_t i = 0; i < n; ++i)
    for (const Access& a : traced[i].accesses) {
      if (first[a.buffer] == kNever) first[a.buffer] = i;
      last[a.buffer] = i;
    }

  OffsetAllocator arena;
  FreedBytes freed;
  std::vector<History> history(plan.buffers.size());
  // clock[i * num_streams + s] = 1 + the last instruction of stream s known to be complete once i is.
  std::vector<uint32_t> clock(n * num_streams, 0), stream_clock(num_streams * num_streams, 0);
  std::vector<std::vector<uint32_t>> waits(n);
  std::vector<bool> recorded(n, false), placed(plan.buffers.size(), false);
  std::vector<uint32_t> after;
  HeldBytes held;
  std::vector<uint32_t> recent_runs;   // issue positions
  const auto order_after = [&](uint32_t i, int32_t stream) {
    std::sort(after.begin(), after.end(), std::greater<>());
    uint32_t* known = &stream_clock[static_cast<size_t>(stream) * num_streams];
    for (uint32_t j : after) {
      const int32_t other = traced[j].instruction.stream;
      if (other == stream || known[other] > j) continue;
      waits[i].push_back(j);
      recorded[j] = true;
      const uint32_t* seen = &clock[static_cast<size_t>(j) * num_streams];
      for (size_t s = 0; s < num_streams; ++s) known[s] = std::max(known[s], seen[s]);
    }
    after.clear();
  };
  for (uint32_t i = 0; i < n; ++i) {
    const int32_t stream = traced[i].instruction.stream;
    uint32_t* known = &stream_clock[static_cast<size_t>(stream) * num_streams];
    const bool is_run = std::holds_alternative<plan::Run>(traced[i].instruction.action);
    if (is_run) recent_runs.push_back(i);
    for (uint32_t j : traced[i].after)
      if (traced[j].instruction.stream != stream) after.push_back(j);
    for (const Access& a : traced[i].accesses) {
      for (const auto& [s, w] : history[a.buffer].writes)
        if (s != stream) after.push_back(w);
      if (a.writes)
        for (const auto& [s, r] : history[a.buffer].reads)
          if (s != stream) after.push_back(r);
    }
    order_after(i, stream);
    // A message's own stream knows that it is through, the runs that would take its bytes do not.
    if (is_run) held.release(known, recent_runs.size() > kPatienceRuns ? recent_runs[recent_runs.size() - 1 - kPatienceRuns] : 0, arena);
    for (const Access& a : traced[i].accesses) {
      plan::Buffer& buffer = plan.buffers[a.buffer];
      if (buffer.cls != plan::BufferClass::kArena || first[a.buffer] != i || placed[a.buffer]) continue;
      placed[a.buffer] = true;
      buffer.offset = arena.allocate(buffer.bytes);
      freed.take(buffer.offset, OffsetAllocator::align(std::max<int64_t>(buffer.bytes, 1)), after);
    }
    order_after(i, stream);
    known[stream] = i + 1;
    std::copy(known, known + num_streams, &clock[static_cast<size_t>(i) * num_streams]);
    for (const Access& a : traced[i].accesses) {
      History& h = history[a.buffer];
      if (a.writes) {
        h.writes.clear();
        h.reads.clear();
        note(h.writes, stream, i);
      } else {
        note(h.reads, stream, i);
      }
    }
    for (const Access& a : traced[i].accesses) {
      plan::Buffer& buffer = plan.buffers[a.buffer];
      if (buffer.cls != plan::BufferClass::kArena || last[a.buffer] != i || first[a.buffer] == kNever) continue;
      const int64_t bytes = OffsetAllocator::align(std::max<int64_t>(buffer.bytes, 1));
      freed.put(buffer.offset, bytes, history[a.buffer]);
      if (ends_with_message(history[a.buffer]))
        held.put(buffer.offset, bytes, history[a.buffer], i);
      else
        arena.release(buffer.offset, bytes);
      first[a.buffer] = kNever;  // a buffer named twice by one instruction is given back once
    }
  }
  plan.arena_bytes = arena.high_water();

  std::vector<int32_t> event_of(n, -1);
  for (uint32_t i = 0; i < n; ++i)
    if (recorded[i]) {
      event_of[i] = static_cast<int32_t>(plan.events.size());
      plan.events.push_back(traced[i].name);
    }
  for (uint32_t i = 0; i < n; ++i) {
    plan::Instruction& instruction = traced[i].instruction;
    std::sort(waits[i].begin(), waits[i].end());
    for (uint32_t j : waits[i])
      plan.instructions.push_back({instruction.stream, plan::Wait{event_of[j]}, instruction.provenance});
    const int32_t stream = instruction.stream, provenance = instruction.provenance;
    plan.instructions.push_back(std::move(instruction));
    if (recorded[i]) plan.instructions.push_back({stream, plan::Record{event_of[i]}, provenance});
  }
}

}  // namespace piper::emit
