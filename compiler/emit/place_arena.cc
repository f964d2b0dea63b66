#include "compiler/emit/place_arena.h"

#include <algorithm>
#include <optional>

#include "compiler/emit/lives.h"
#include "compiler/emit/pack.h"
#include "schemas/plan/held_messages.h"

namespace piper::emit {
namespace {

constexpr double kPatienceCosts = 1.02;  // of the bytes alive without patience, at most

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
      : plan_(plan), trace_(trace), order_(order), alignment_(alignment), buffers_(arena_buffers(plan, trace)) {}

  Packed packed() const {
    const std::vector<plan::Life> hard = lives(0);
    const auto affordable = static_cast<int64_t>(kPatienceCosts * static_cast<double>(plan::fullest(hard).bytes));
    if (std::optional<Packed> patient = with_patience(plan::kMostPatience, affordable)) return std::move(*patient);
    Packed hasty = pack(hard, alignment_);
    const int64_t limit = std::max(affordable, hasty.bytes);
    const bool again = limit > affordable;
    for (int patience = again ? plan::kMostPatience : plan::kMostPatience / 2; patience > 0; patience /= 2)
      if (std::optional<Packed> patient = with_patience(patience, limit)) return std::move(*patient);
    return hasty;
  }
  const std::vector<int32_t>& buffers() const { return buffers_; }

 private:
  std::vector<plan::Life> lives(int patience) const {
    std::vector<plan::Life> found = lives_of(trace_, order_, buffers_, plan_.streams.size(), patience);
    for (size_t b = 0; b < found.size(); ++b) found[b].bytes = plan_.buffers[buffers_[b]].bytes;
    return found;
  }
  std::optional<Packed> with_patience(int patience, int64_t limit) const {
    return pack_within(lives(patience), alignment_, limit);
  }

  const plan::RankPlan& plan_;
  const Trace& trace_;
  const DataOrder& order_;
  int64_t alignment_;
  std::vector<int32_t> buffers_;
};

}  // namespace

Arena place_arena(const plan::RankPlan& plan, const Trace& trace, const DataOrder& order, int64_t alignment) {
  const PatientPacker packer(plan, trace, order, alignment);
  const Packed packed = packer.packed();
  Arena arena{packed.bytes, std::vector<int64_t>(plan.buffers.size(), 0)};
  for (size_t b = 0; b < packer.buffers().size(); ++b) arena.offsets[packer.buffers()[b]] = packed.offsets[b];
  return arena;
}

}  // namespace piper::emit
