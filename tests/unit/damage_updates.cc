// Damages that rule 10 of the proof must find: every copy is updated once and saved by one rank.
#include "tests/unit/plan_damages.h"

#include <algorithm>

#include "tests/unit/plan_damage_edits.h"

namespace piper::damages {
namespace {

using namespace plan;

bool update_left_out(Bundle& b) { return erase_all(b, first_only<Update>(find<Update>(b))); }
bool update_lacks_elements(Bundle& b) {
  // All but the first: the last may be padding.
  const auto found = find<Update>(b, [](const RankPlan&, const Update& update) { return update.count > 1; });
  if (!found.empty()) std::get<Update>(get(b, found[0]).action).count = 1;
  return !found.empty();
}
bool moments_shared(Bundle& b) {
  for (const At a : find<Update>(b))
    for (const At other : find<Update>(b)) {
      auto &x = std::get<Update>(get(b, a).action), &y = std::get<Update>(get(b, other).action);
      if (a.rank != other.rank || a.index >= other.index || x.m.buffer < 0) continue;
      y.m = x.m;
      return true;
    }
  return false;
}
bool replicas_decay_differently(Bundle& b) {
  if (b.manifest.optimizer.groups.size() < 2) b.manifest.optimizer.groups.push_back({"other", 0.5});
  for (const At at : find<Update>(b)) {
    auto& update = std::get<Update>(get(b, at).action);
    const auto& plan = b.ranks[at.rank];
    const auto placed = std::find_if(plan.placements.begin(), plan.placements.end(), [&](const Placement& p) {
      return p.value.where.buffer == update.parameter.buffer && p.value.where.offset >= update.parameter.offset &&
             p.value.where.offset < update.parameter.offset + update.count * 4;
    });
    if (placed == plan.placements.end()) continue;
    const auto elsewhere = find<Update>(b, [&](const RankPlan& p, const Update& u) {
      return p.rank != plan.rank && std::any_of(p.placements.begin(), p.placements.end(), [&](const Placement& q) {
               return q.name == placed->name && q.value.where.buffer == u.parameter.buffer &&
                      q.value.where.offset >= u.parameter.offset &&
                      q.value.where.offset < u.parameter.offset + u.count * 4;
             });
    });
    if (elsewhere.empty()) continue;
    update.group = 1 - update.group;
    return true;
  }
  return false;
}
bool gradient_not_clipped(Bundle& b) {
  const auto found = find<Update>(b, [](const RankPlan&, const Update& update) { return update.scale.buffer >= 0; });
  if (!found.empty()) std::get<Update>(get(b, found[0]).action).scale = {};
  return !found.empty();
}
bool tensor_saved_by_nobody(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& placement : plan.placements)
      if (placement.value.owner) {
        placement.value.owner = false;
        return true;
      }
  return false;
}
bool tensor_saved_twice(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& placement : plan.placements)
      if (!placement.value.owner && placement.gradient.where.buffer >= 0) {
        placement.value.owner = true;
        return true;
      }
  return false;
}
bool tensor_placed_elsewhere(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& one : plan.placements)
      for (auto& two : plan.placements)
        if (one.name != two.name && one.gradient.where.buffer >= 0 && one.shape == two.shape &&
            one.value.count == two.value.count) {
          std::swap(one.value.where, two.value.where);
          return true;
        }
  return false;
}

}  // namespace

std::vector<Damage> of_updates() {
  return {
      PIPER_DAMAGE(update_left_out, "P0636", "P0638"), PIPER_DAMAGE(update_lacks_elements, "P0636", "P0638"),
      PIPER_DAMAGE(moments_shared, "P0638"),           PIPER_DAMAGE(replicas_decay_differently, "P0638"),
      PIPER_DAMAGE(gradient_not_clipped, "P0638"),     PIPER_DAMAGE(tensor_saved_by_nobody, "P0638"),
      PIPER_DAMAGE(tensor_saved_twice, "P0638"),       PIPER_DAMAGE(tensor_placed_elsewhere, "P0637", "P0638"),
  };
}

}  // namespace piper::damages
