#include "schemas/plan/like_ranks.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace piper::plan {

namespace {

// Why the list cannot stand for the other plan's; "" where it can: it names the same buffers, in the arena the same
// bytes of them, so that only persistent buffers have parts of a rank's own.
std::string why_other_list(const RankPlan& plan, const ArgumentList& list, const ArgumentList& first) {
  const std::string what = "argument list \"" + list.name.substr(0, 200) + "\" ";
  if (list.name != first.name || list.microbatch != first.microbatch || list.arguments.size() != first.arguments.size())
    return what + "is another one, or of another length";
  for (size_t i = 0; i < list.arguments.size(); ++i) {
    const BufferRange &here = list.arguments[i], &there = first.arguments[i];
    if (here.buffer != there.buffer) return what + "names other buffers";
    if (here.offset != there.offset && plan.buffers[static_cast<size_t>(here.buffer)].cls == BufferClass::kArena)
      return what + "names other bytes of the arena";
  }
  return "";
}

}  // namespace

std::vector<size_t> own_lists(const RankPlan& plan, const RankPlan& first) {
  std::vector<size_t> differ;
  const auto add = [&](const ArgumentLists& lists) {
    for (const ArgumentLists::Own& own : lists.own())
      if (!(plan.arguments[own.index] == first.arguments[own.index])) differ.push_back(own.index);
  };
  add(plan.arguments);
  add(first.arguments);
  std::sort(differ.begin(), differ.end());
  differ.erase(std::unique(differ.begin(), differ.end()), differ.end());
  return differ;
}

std::string why_other_work(const RankPlan& plan, const RankPlan& first) {
  const std::string other = "rank " + std::to_string(first.rank);
  if (plan.arena_bytes != first.arena_bytes) return "arena_bytes is not that of " + other;
  const auto alike = [](const auto& a, const auto& b, const auto& same) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
  };
  if (!alike(plan.channels, first.channels, [](const Channel& a, const Channel& b) { return a.name == b.name; }))
    return "the channels are not called like those of " + other;
  if (!alike(plan.communicators, first.communicators, [](const Communicator& a, const Communicator& b) {
        return a.name == b.name && a.ranks.size() == b.ranks.size();
      }))
    return "the communicators differ from those of " + other + " in name or size";
  if (plan.arguments.size() != first.arguments.size()) return "its argument lists are not those of " + other;
  for (const size_t list : own_lists(plan, first))
    if (const auto why = why_other_list(plan, plan.arguments[list], first.arguments[list]); !why.empty())
      return why + " than that of " + other;
  return "";
}

bool same_work(const RankPlan& plan, const RankPlan& first) {
  const auto one = [](const auto& a, const auto& b) { return a.shares(b) || (a.empty() && b.empty()); };
  return one(plan.instructions, first.instructions) && one(plan.arguments, first.arguments) &&
         one(plan.buffers, first.buffers) && one(plan.streams, first.streams) && one(plan.events, first.events) &&
         why_other_work(plan, first).empty();
}

bool places_like(const RankPlan& plan, const RankPlan& first) {
  const auto range = [](const BufferRange& where) { return std::tie(where.buffer, where.offset); };
  return std::equal(plan.placements.begin(), plan.placements.end(), first.placements.begin(), first.placements.end(),
                    [&](const Placement& a, const Placement& b) {
                      return !a.part.owner && range(a.part.where) == range(b.part.where) &&
                             std::tie(a.part.first, a.part.count, a.kind, a.dtype, a.name, a.shape) ==
                                 std::tie(b.part.first, b.part.count, b.kind, b.dtype, b.name, b.shape);
                    });
}

std::vector<int32_t> like_ranks(const Bundle& bundle) {
  std::vector<int32_t> like(bundle.ranks.size(), -1);
  std::unordered_map<const void*, int32_t> first;  // storage of instructions -> index
  for (size_t i = 0; i < bundle.ranks.size(); ++i) {
    const RankPlan& plan = bundle.ranks[i];
    if (plan.instructions.storage() == nullptr) continue;
    const auto [known, fresh] = first.emplace(plan.instructions.storage(), static_cast<int32_t>(i));
    if (!fresh && same_work(plan, bundle.ranks[static_cast<size_t>(known->second)])) like[i] = known->second;
  }
  return like;
}

}  // namespace piper::plan
