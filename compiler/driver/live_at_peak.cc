#include "compiler/driver/live_at_peak.h"

#include <algorithm>

#include "schemas/verify/accesses.h"

namespace piper::driver {
namespace {

struct Life {
  size_t first = 0, last = 0;
  bool accessed = false;
};

std::vector<Life> lives_of(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  std::vector<Life> lives(plan.buffers.size());
  std::vector<verify::Access> accesses;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    accesses.clear();
    verify::collect_accesses(bundle, plan, plan.instructions[i].action, accesses);
    for (const verify::Access& access : accesses) {
      Life& life = lives[static_cast<size_t>(access.where.buffer)];
      if (!life.accessed) life = {i, i, true};
      life.last = i;
    }
  }
  return lives;
}

}  // namespace

LiveAtPeak live_at_peak(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  const std::vector<Life> lives = lives_of(bundle, plan);
  const auto in_arena = [&](size_t b) { return lives[b].accessed && plan.buffers[b].cls == plan::BufferClass::kArena; };
  std::vector<int64_t> change(plan.instructions.size() + 1, 0);  // of the live bytes, at each instruction
  for (size_t b = 0; b < lives.size(); ++b)
    if (in_arena(b)) {
      change[lives[b].first] += plan.buffers[b].bytes;
      change[lives[b].last + 1] -= plan.buffers[b].bytes;
    }
  LiveAtPeak peak;
  int64_t live = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    live += change[i];
    if (live <= peak.bytes) continue;
    peak.bytes = live;
    peak.instruction = i;
  }
  for (size_t b = 0; b < lives.size(); ++b)
    if (in_arena(b) && lives[b].first <= peak.instruction && peak.instruction <= lives[b].last)
      peak.buffers.push_back(static_cast<int32_t>(b));
  std::stable_sort(peak.buffers.begin(), peak.buffers.end(), [&](int32_t a, int32_t b) {
    return plan.buffers[static_cast<size_t>(a)].bytes > plan.buffers[static_cast<size_t>(b)].bytes;
  });
  return peak;
}

}  // namespace piper::driver
