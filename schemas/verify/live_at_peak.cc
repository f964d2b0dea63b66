#include "schemas/verify/live_at_peak.h"

#include <algorithm>

#include "schemas/plan/life.h"
#include "schemas/verify/accesses.h"

namespace piper::verify {
namespace {

// [buffer] of no bytes and no time for those that are not in the arena or never touched.
std::vector<plan::Life> lives_of(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  std::vector<Access> accesses;
  std::vector<plan::Life> lives(plan.buffers.size());
  for (uint32_t i = 0; i < plan.instructions.size(); ++i) {
    accesses.clear();
    collect_accesses(bundle, plan, plan.instructions[i].action, accesses);
    for (const Access& access : accesses) {
      const auto b = static_cast<size_t>(access.where.buffer);
      if (plan.buffers[b].cls != plan::BufferClass::kArena) continue;
      if (lives[b].end == 0) lives[b] = {i, i + 1, plan.buffers[b].bytes};
      lives[b].end = i + 1;
    }
  }
  return lives;
}

}  // namespace

LiveAtPeak live_at_peak(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  const std::vector<plan::Life> lives = lives_of(bundle, plan);
  const plan::Fullest most = plan::fullest(lives);
  LiveAtPeak peak{most.position, most.bytes, {}};
  for (size_t b = 0; b < lives.size(); ++b)
    if (lives[b].first <= most.position && most.position < lives[b].end)
      peak.buffers.push_back(static_cast<int32_t>(b));
  std::stable_sort(peak.buffers.begin(), peak.buffers.end(), [&](int32_t a, int32_t b) {
    return plan.buffers[static_cast<size_t>(a)].bytes > plan.buffers[static_cast<size_t>(b)].bytes;
  });
  return peak;
}

}  // namespace piper::verify
