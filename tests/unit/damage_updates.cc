// Damages that rule 10 of the proof must find: every copy is updated once and saved by one rank.
#include "tests/unit/plan_damages.h"

#include <algorithm>

#include "tests/unit/plan_damage_edits.h"
#include "tests/unit/plan_updates.h"

namespace piper::damages {
namespace {

using namespace plan;
using example::ranges_of;
using example::set_ranges;
using example::UpdateRanges;

UpdateRanges ranges_at(Bundle& b, At at) { return ranges_of(b, b.ranks[at.rank], std::get<Update>(get(b, at).action)); }
void change(Bundle& b, At at, const std::function<void(UpdateRanges&)>& edit) {
  UpdateRanges ranges = ranges_at(b, at);
  edit(ranges);
  set_ranges(b, b.ranks[at.rank], std::get<Update>(get(b, at).action), ranges);
}

bool update_left_out(Bundle& b) { return erase_all(b, first_only<Update>(find<Update>(b))); }
bool update_lacks_elements(Bundle& b) {
  // All but the first: the last may be padding.
  const auto found =
      find<Update>(b, [&](const RankPlan& plan, const Update& update) { return ranges_of(b, plan, update).count > 1; });
  if (!found.empty()) change(b, found[0], [](UpdateRanges& ranges) { ranges.count = 1; });
  return !found.empty();
}
// A part of what Muon must take whole, as a matrix of its own.
bool matrix_in_halves(Bundle& b) {
  for (const At at : find<Update>(b)) {
    const UpdateRanges whole = ranges_at(b, at);
    const int64_t rows = whole.columns == 0 ? 0 : whole.count / whole.columns;
    if (rows < 2) continue;
    const int64_t half = rows / 2 * whole.columns;
    insert(b, at, get(b, at));
    change(b, at, [&](UpdateRanges& ranges) { ranges.count = half; });
    change(b, {at.rank, at.index + 1}, [&](UpdateRanges& ranges) {
      ranges.count -= half;
      for (BufferRange* range : {&ranges.parameter, &ranges.gradient, &ranges.m}) range->offset += 4 * half;
    });
    return true;
  }
  return false;
}
bool matrix_of_another_shape(Bundle& b) {
  for (const At at : find<Update>(b)) {
    const UpdateRanges whole = ranges_at(b, at);
    if (whole.columns == 0 || whole.count == whole.columns * whole.columns) continue;
    change(b, at, [](UpdateRanges& ranges) { ranges.columns = ranges.count / ranges.columns; });
    return true;
  }
  return false;
}
bool matrix_updated_by_elements(Bundle& b) {
  for (const At at : find<Update>(b)) {
    if (ranges_at(b, at).columns == 0) continue;
    auto& update = std::get<Update>(get(b, at).action);
    const UpdateRanges ranges = ranges_at(b, at);
    for (size_t group = 0; group < b.manifest.optimizer.groups.size(); ++group)
      if (b.manifest.optimizer.groups[group].rest) update.group = static_cast<int32_t>(group);
    UpdateRanges flat = ranges;
    flat.columns = 0;
    set_ranges(b, b.ranks[at.rank], update, flat);
    return true;
  }
  return false;
}
bool moments_shared(Bundle& b) {
  for (const At a : find<Update>(b))
    for (const At other : find<Update>(b)) {
      const UpdateRanges first = ranges_at(b, a);
      if (a.rank != other.rank || a.index >= other.index || first.m.buffer < 0) continue;
      if (first.count < ranges_at(b, other).count) continue;  // it would end past that moment
      change(b, other, [&](UpdateRanges& ranges) { ranges.m = first.m; });
      return true;
    }
  return false;
}
bool replicas_decay_differently(Bundle& b) {
  if (b.manifest.optimizer.groups.size() < 2) b.manifest.optimizer.groups.push_back({"other", 0.5});
  for (const At at : find<Update>(b)) {
    auto& update = std::get<Update>(get(b, at).action);
    const auto& plan = b.ranks[at.rank];
    const auto updates = [](const UpdateRanges& ranges, const Placement& p) {
      const BufferRange& where = p.part.where;
      return p.kind == PlacementKind::kValue && where.buffer == ranges.parameter.buffer &&
             where.offset >= ranges.parameter.offset && where.offset < ranges.parameter.offset + ranges.count * 4;
    };
    const auto placed = std::find_if(plan.placements.begin(), plan.placements.end(),
                                     [&](const Placement& p) { return updates(ranges_of(b, plan, update), p); });
    if (placed == plan.placements.end()) continue;
    const auto elsewhere = find<Update>(b, [&](const RankPlan& p, const Update& u) {
      return p.rank != plan.rank && std::any_of(p.placements.begin(), p.placements.end(), [&](const Placement& q) {
               return q.name == placed->name && updates(ranges_of(b, p, u), q);
             });
    });
    if (elsewhere.empty()) continue;
    update.group = 1 - update.group;
    return true;
  }
  return false;
}
bool gradient_not_clipped(Bundle& b) {
  const auto found = find<Update>(
      b, [&](const RankPlan& plan, const Update& update) { return ranges_of(b, plan, update).scale.buffer >= 0; });
  if (!found.empty()) change(b, found[0], [](UpdateRanges& ranges) { ranges.scale = {}; });
  return !found.empty();
}
bool tensor_saved_by_nobody(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& placement : plan.placements)
      if (placement.part.owner && placement.kind == PlacementKind::kValue) {
        placement.part.owner = false;
        return true;
      }
  return false;
}
bool tensor_saved_twice(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& placement : plan.placements)
      if (!placement.part.owner && placement.kind == PlacementKind::kValue) {
        placement.part.owner = true;
        return true;
      }
  return false;
}
bool tensor_placed_elsewhere(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& one : plan.placements)
      for (auto& two : plan.placements)
        if (one.name != two.name && one.kind == PlacementKind::kValue && two.kind == PlacementKind::kValue &&
            one.shape == two.shape && one.part.count == two.part.count) {
          std::swap(one.part.where, two.part.where);
          return true;
        }
  return false;
}

std::vector<At> advances(Bundle& b) {
  return find<Run>(b, [&](const RankPlan&, const Run& run) { return program_of(b, run).name == "advance"; });
}
bool step_not_counted(Bundle& b) { return erase_all(b, first_only<Run>(advances(b))); }
bool step_counted_twice(Bundle& b) {
  const auto found = advances(b);
  if (!found.empty()) insert(b, found[0], get(b, found[0]));
  return !found.empty();
}
bool moments_exchanged(Bundle& b) {
  for (const At at : find<Update>(b))
    if (ranges_at(b, at).v.buffer >= 0) {
      change(b, at, [](UpdateRanges& ranges) { std::swap(ranges.m, ranges.v); });
      return true;
    }
  return false;
}
bool moment_saved_by_nobody(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& placement : plan.placements)
      if (placement.part.owner && placement.kind == PlacementKind::kFirstMoment && placement.part.count > 0) {
        placement.part.owner = false;
        return true;
      }
  return false;
}
bool rate_of_another_type(Bundle& b) {
  bool changed = false;
  for (auto& program : b.programs)
    for (auto& call : program.calls)
      if (call.kernel == b.manifest.optimizer.kind) {
        call.inputs[0].dtype = DType::kF32;
        changed = true;
      }
  return changed;
}
bool moments_only_written(Bundle& b) {
  bool changed = false;
  for (auto& program : b.programs)
    for (auto& slot : program.slots)
      if (slot.role == SlotRole::kMoment) {
        slot.reads = false;
        changed = true;
      }
  return changed;
}
bool rate_read_elsewhere(Bundle& b) {
  for (const At at : find<Update>(b)) {
    auto& plan = b.ranks[at.rank];
    const auto& update = std::get<Update>(get(b, at).action);
    auto& arguments = plan.arguments.edit()[static_cast<size_t>(update.arguments)].arguments;
    for (auto& where : arguments)
      if (where.buffer == plan.learning_rate.buffer) {
        where = arguments[0];
        return true;
      }
  }
  return false;
}

}  // namespace

std::vector<Damage> of_updates() {
  return {
      PIPER_DAMAGE(update_left_out, "P0636", "P0638"),
      PIPER_DAMAGE(update_lacks_elements, "P0636", "P0638", "P0642"),
      PIPER_DAMAGE(matrix_in_halves, "P0642"),
      PIPER_DAMAGE(matrix_of_another_shape, "P0642"),
      PIPER_DAMAGE(matrix_updated_by_elements, "P0638"),
      PIPER_DAMAGE(moments_shared, "P0638"),
      PIPER_DAMAGE(replicas_decay_differently, "P0638"),
      PIPER_DAMAGE(gradient_not_clipped, "P0638"),
      PIPER_DAMAGE(tensor_saved_by_nobody, "P0638"),
      PIPER_DAMAGE(tensor_saved_twice, "P0638"),
      PIPER_DAMAGE(tensor_placed_elsewhere, "P0637", "P0638"),
      PIPER_DAMAGE(step_not_counted, "P0638"),
      PIPER_DAMAGE(step_counted_twice, "P0638"),
      PIPER_DAMAGE(moments_exchanged, "P0638"),
      PIPER_DAMAGE(moment_saved_by_nobody, "P0638"),
      PIPER_DAMAGE(rate_read_elsewhere, "P0635", "P0637"),
      PIPER_DAMAGE(rate_of_another_type, "P0635", "P0638"),
      PIPER_DAMAGE(moments_only_written, "P0635"),
  };
}

}  // namespace piper::damages
