#include "schemas/verify/live_at_peak.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "schemas/plan/actions.h"
#include "schemas/plan/held_messages.h"
#include "schemas/verify/accesses.h"
#include "schemas/verify/order.h"

namespace piper::verify {
namespace {

// The last write of a buffer and the reads since.
struct Closing {
  std::vector<Moment> accesses;
  bool message = false;  // one of them is no run
};

// [buffer] of no bytes and no time for those that are not in the arena or never touched.
std::vector<plan::Life> lives_of(const plan::Bundle& bundle, const plan::RankPlan& plan, int patience) {
  const auto count = static_cast<uint32_t>(plan.instructions.size());
  std::vector<std::vector<Access>> accesses(count);
  std::vector<plan::Life> lives(plan.buffers.size());
  for (uint32_t i = 0; i < count; ++i) {
    collect_accesses(bundle, plan, plan.instructions[i].action, accesses[i]);
    std::erase_if(accesses[i], [&](const Access& access) {
      return plan.buffers[static_cast<size_t>(access.where.buffer)].cls != plan::BufferClass::kArena;
    });
    for (const Access& access : accesses[i]) {
      const auto b = static_cast<size_t>(access.where.buffer);
      if (lives[b].end == 0) lives[b] = {i, i + 1, plan.buffers[b].bytes};
      lives[b].end = i + 1;
    }
  }
  if (patience == 0) return lives;
  std::vector<uint32_t> last(lives.size());
  for (size_t b = 0; b < lives.size(); ++b) last[b] = lives[b].end;
  std::vector<Closing> closing(lives.size());
  VectorClocks clocks(plan);
  plan::HeldMessages<size_t> held(patience);
  for (uint32_t i = 0; i < count; ++i) {
    const plan::Instruction& instruction = plan.instructions[i];
    const Moment now = clocks.advance(instruction);
    const bool run = plan::run_of(instruction.action) != nullptr;
    if (run)
      held.at_run(
          i,
          [&](size_t b) {
            return std::all_of(closing[b].accesses.begin(), closing[b].accesses.end(),
                               [&](const Moment& access) { return clocks.before(access, instruction.stream); });
          },
          [&](size_t b) { lives[b].end = i; });
    for (const Access& access : accesses[i]) {
      Closing& of = closing[static_cast<size_t>(access.where.buffer)];
      if (access.writes) of = {};
      of.accesses.push_back(now);
      of.message = of.message || !run;
    }
    for (const Access& access : accesses[i]) {
      const auto b = static_cast<size_t>(access.where.buffer);
      if (last[b] != i + 1 || !closing[b].message || lives[b].end != i + 1) continue;
      lives[b].end = count;
      held.put(b, i);
    }
  }
  return lives;
}

// Whether no two buffers have a byte in common while both live.
bool keeps_to(const plan::RankPlan& plan, const std::vector<plan::Life>& lives) {
  std::vector<size_t> by_first;
  for (size_t b = 0; b < lives.size(); ++b)
    if (lives[b].bytes > 0) by_first.push_back(b);
  std::stable_sort(by_first.begin(), by_first.end(),
                   [&](size_t a, size_t b) { return lives[a].first < lives[b].first; });
  std::map<int64_t, int64_t> taken;  // offset -> end, disjoint
  using Ending = std::pair<uint32_t, int64_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ending;  // (end of the life, offset)
  for (const size_t b : by_first) {
    for (; !ending.empty() && ending.top().first <= lives[b].first; ending.pop()) taken.erase(ending.top().second);
    const int64_t begin = plan.buffers[b].offset, end = begin + lives[b].bytes;
    const auto next = taken.lower_bound(begin);
    if (next != taken.end() && next->first < end) return false;
    if (next != taken.begin() && std::prev(next)->second > begin) return false;
    taken.emplace(begin, end);
    ending.emplace(lives[b].end, begin);
  }
  return true;
}

}  // namespace

LiveAtPeak live_at_peak(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  const std::vector<plan::Life> lives = lives_of(bundle, plan, 0);
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

Patience patience_of(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  for (int runs = plan::kMostPatience; runs > 0; runs /= 2) {
    const std::vector<plan::Life> lives = lives_of(bundle, plan, runs);
    if (keeps_to(plan, lives)) return {runs, plan::fullest(lives).bytes};
  }
  return {0, plan::fullest(lives_of(bundle, plan, 0)).bytes};
}

}  // namespace piper::verify
