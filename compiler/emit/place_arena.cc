#include "compiler/emit/place_arena.h"

#include <algorithm>
#include <optional>

#include "compiler/emit/lives.h"
#include "compiler/emit/pack.h"

namespace piper::emit {
namespace {

// The most bytes that are alive with patience, and the most of an arena, which has holes: in those alive without.
constexpr double kPatienceAlive = 1.01, kPatienceCosts = 1.02;

// The buffers of the arena that are touched at all, in the order in which they are first touched.
std::vector<int32_t> arena_buffers(const plan::RankPlan& plan, const Trace& trace) {
  std::vector<int32_t> found;
  std::vector<bool> seen(plan.buffers.size(), false);
  for (const Access& a : trace.accesses) {
    if (seen[a.buffer] || plan.buffers[a.buffer].cls != plan::BufferClass::kArena) continue;
    seen[a.buffer] = true;
    found.push_back(a.buffer);
  }
  return found;
}

class PatientPacker {
 public:
  PatientPacker(const plan::RankPlan& plan, const Trace& trace, const DataOrder& order, int64_t alignment)
      : positions_(trace.size()),
        alignment_(alignment),
        buffers_(arena_buffers(plan, trace)),
        lives_(lives_of(trace, order, buffers_, plan.streams.size())) {
    for (size_t b = 0; b < buffers_.size(); ++b) lives_.hard[b].bytes = plan.buffers[buffers_[b]].bytes;
    live_ = plan::fullest(lives_.hard).bytes;
  }

  Packed packed() const {
    const int64_t affordable = times(kPatienceCosts);
    if (std::optional<Packed> patient = with_patience(kMostPatience, affordable)) return std::move(*patient);
    Packed hasty = pack(lives_.hard, alignment_);
    const int64_t limit = std::max(affordable, hasty.bytes);
    const bool again = limit > affordable;
    for (size_t passes = again ? kMostPatience : kMostPatience / 2; passes > 0; passes /= 2)
      if (std::optional<Packed> patient = with_patience(passes, limit)) return std::move(*patient);
    return hasty;
  }
  const std::vector<int32_t>& buffers() const { return buffers_; }

 private:
  int64_t times(double factor) const { return static_cast<int64_t>(factor * static_cast<double>(live_)); }
  std::optional<Packed> with_patience(size_t passes, int64_t limit) const {
    return pack_within(kept_for(passes), alignment_, limit);
  }
  // Lives of what ends in messages, longer where there is room: all by one pass, then by a second one, ..
  std::vector<plan::Life> kept_for(size_t passes) const {
    std::vector<plan::Life> lives = lives_.hard;
    const int64_t most = times(kPatienceAlive);
    std::vector<int64_t> alive(positions_ + 1, 0);  // [position] bytes
    for (const plan::Life& life : lives) {
      alive[life.first] += life.bytes;
      alive[life.end] -= life.bytes;
    }
    for (size_t i = 1; i < alive.size(); ++i) alive[i] += alive[i - 1];
    for (size_t pass = 0; pass < passes; ++pass)
      for (const Lives::SoftEnds& soft : lives_.soft) {
        plan::Life& life = lives[soft.life];
        const auto from = alive.begin() + life.end, to = alive.begin() + soft.ends[pass];
        if (std::any_of(from, to, [&](int64_t bytes) { return bytes + life.bytes > most; })) continue;
        std::for_each(from, to, [&](int64_t& bytes) { bytes += life.bytes; });
        life.end = soft.ends[pass];
      }
    return lives;
  }

  uint32_t positions_;
  int64_t alignment_;
  std::vector<int32_t> buffers_;
  Lives lives_;
  int64_t live_ = 0;  // bytes at one time, without patience
};

}  // namespace

Arena place_arena(const plan::RankPlan& plan, const Trace& trace, const DataOrder& order, int64_t alignment) {
  const PatientPacker packer(plan, trace, order, alignment);
  const Packed packed = packer.packed();
  Arena arena{packed.bytes, std::vector<int64_t>(plan.buffers.size(), 0)};
  for (size_t b = 0; b < packer.buffers().size(); ++b) arena.offsets[packer.buffers()[b]] = packed.offsets[b];
  return arena;
}

Arena spread_arena(const plan::RankPlan& plan, const Trace& trace, const DataOrder& order, int64_t alignment) {
  Arena arena{0, std::vector<int64_t>(plan.buffers.size(), 0)};
  const std::vector<int32_t> buffers = arena_buffers(plan, trace);
  std::vector<plan::Life> lives;
  int64_t end = 0;
  for (const int32_t b : buffers) {
    const int64_t bytes = align_up(std::max<int64_t>(plan.buffers[b].bytes, 1), alignment);
    lives.push_back({order.uses[b].first, order.uses[b].last + 1, bytes});
    arena.offsets[b] = end;
    end += bytes;
  }
  arena.bytes = plan::fullest(lives).bytes;
  return arena;
}

}  // namespace piper::emit
