// Damages that rules 9 and 10 of the proof must find in mixed precision: programs read working copies and updates make
// them, gradients are scaled and unscaled, and a step with an overflow is left out everywhere.
#include <algorithm>
#include <utility>

#include "tests/unit/plan_damage_edits.h"
#include "tests/unit/plan_damages.h"
#include "tests/unit/plan_updates.h"

namespace piper::damages {
namespace {

using namespace plan;
using example::ranges_of;
using example::set_ranges;
using example::UpdateRanges;

bool change_update(Bundle& b, BufferRange UpdateRanges::* where, const std::function<void(UpdateRanges&)>& edit) {
  for (const At at : find<Update>(b)) {
    RankPlan& plan = b.ranks[at.rank];
    auto& update = std::get<Update>(get(b, at).action);
    UpdateRanges ranges = ranges_of(b, plan, update);
    if ((ranges.*where).buffer < 0) continue;
    edit(ranges);
    set_ranges(b, plan, update, ranges);
    return true;
  }
  return false;
}
bool edit_call(Bundle& b, const std::string& kernel, const std::function<bool(KernelCall&)>& edit) {
  bool changed = false;
  for (Program& program : b.programs)
    for (KernelCall& call : program.calls) changed = (call.kernel == kernel && edit(call)) || changed;
  return changed;
}
std::vector<At> checks(const Bundle& b) {
  return find<Run>(b, [&](const RankPlan&, const Run& run) {
    const Program& program = program_of(b, run);
    return std::any_of(program.calls.begin(), program.calls.end(),
                       [](const KernelCall& call) { return call.kernel == "overflows"; });
  });
}
Placement* placed(Bundle& b, PlacementKind kind) {
  for (RankPlan& plan : b.ranks)
    for (Placement& placement : plan.placements)
      if (placement.kind == kind && placement.part.count > 0) return &placement;
  return nullptr;
}

bool working_copy_not_written(Bundle& b) {
  return change_update(b, &UpdateRanges::working, [](UpdateRanges& ranges) { ranges.working = {}; });
}
bool working_copy_of_another(Bundle& b) {
  for (RankPlan& plan : b.ranks)
    for (Placement& one : plan.placements)
      for (Placement& two : plan.placements)
        if (one.kind == PlacementKind::kWorking && two.kind == one.kind && one.name < two.name &&
            one.part.count == two.part.count && one.part.count > 0) {
          std::swap(one.part.where, two.part.where);
          return true;
        }
  return false;
}
bool working_copy_of_another_type(Bundle& b) {
  return change_update(b, &UpdateRanges::working, [](UpdateRanges& ranges) {
    ranges.working_type = ranges.working_type == DType::kBF16 ? DType::kF16 : DType::kBF16;
  });
}
bool working_copy_saved(Bundle& b) {
  Placement* const copy = placed(b, PlacementKind::kWorking);
  if (copy != nullptr) copy->part.owner = true;
  return copy != nullptr;
}
bool master_saved_by_nobody(Bundle& b) {
  for (RankPlan& plan : b.ranks)
    for (Placement& placement : plan.placements)
      if (placement.kind == PlacementKind::kMaster && placement.part.owner && placement.part.count > 0) {
        placement.part.owner = false;
        return true;
      }
  return false;
}
bool master_read_by_a_program(Bundle& b) {
  return change_argument(b, SlotRole::kParameter,
                         [](RankPlan& plan, const Program& program, size_t slot, BufferRange& where, const Run&) {
                           for (const Placement& p : plan.placements)
                             if (p.kind == PlacementKind::kMaster && p.name == program.slots[slot].of &&
                                 p.part.count * dtype_bytes(p.dtype) >= program.slots[slot].bytes) {
                               where = p.part.where;
                               return true;
                             }
                           return false;
                         });
}
bool master_of_another_type(Bundle& b) {
  Placement* const master = placed(b, PlacementKind::kMaster);
  if (master != nullptr) master->dtype = DType::kF16;
  return master != nullptr;
}

bool overflow_not_looked_for(Bundle& b) { return erase_all(b, first_only<Run>(checks(b))); }
bool overflow_kept_to_oneself(Bundle& b) { return erase_all(b, reductions_of(b, "overflow")); }
bool overflow_of_fewer_gradients(Bundle& b) {
  return edit_call(b, "overflows", [](KernelCall& call) {
    if (call.inputs[0].shape[0] < 2) return false;
    call.inputs[0].shape[0] -= 1;
    return true;
  });
}
bool update_in_spite_of_overflow(Bundle& b) {
  return change_update(b, &UpdateRanges::overflow, [](UpdateRanges& ranges) { ranges.overflow = {}; });
}
bool step_counted_in_spite_of_overflow(Bundle& b) {
  return edit_call(b, "advance", [](KernelCall& call) { return std::exchange(call.inputs, {}).size() > 0; });
}
bool loss_scale_does_not_follow(Bundle& b) {
  bool changed = false;
  for (Program& program : b.programs)
    changed =
        std::erase_if(program.calls, [](const KernelCall& call) { return call.kernel == "advance_loss_scale"; }) > 0 ||
        changed;
  return changed;
}
bool gradient_not_unscaled(Bundle& b) {
  const bool clipped = edit_call(b, "clip_scale", [](KernelCall& call) {
    if (call.inputs.size() < 2) return false;
    call.inputs.pop_back();
    return true;
  });
  return clipped ||
         erase_all(b,
                   find<Run>(b, [&](const RankPlan&, const Run& run) { return program_of(b, run).name == "unscale"; }));
}
bool loss_scaled_by_something_else(Bundle& b) {
  return change_argument(b, SlotRole::kScalar,
                         [](RankPlan& plan, const Program& program, size_t slot, BufferRange& where, const Run&) {
                           if (program.slots[slot].holds != StepNumber::kLossScale) return false;
                           where = plan.overflow;
                           return true;
                         });
}

bool loss_not_scaled(Bundle& b) {
  bool changed = false;
  for (Program& program : b.programs)
    for (KernelCall& call : program.calls) {
      if (call.kernel != "mul") continue;
      for (Operand& operand : call.inputs) {
        if (operand.slot < 0 || program.slots[static_cast<size_t>(operand.slot)].holds != StepNumber::kLossScale)
          continue;
        program.slots[static_cast<size_t>(operand.slot)].reads = false;
        operand = call.inputs[&operand == &call.inputs[0] ? 1 : 0];
        changed = true;
      }
    }
  return changed;
}

}  // namespace

std::vector<Damage> of_precision() {
  return {
      PIPER_DAMAGE(working_copy_not_written, "P0638"),
      PIPER_DAMAGE(working_copy_of_another, "P0637", "P0638"),
      PIPER_DAMAGE(working_copy_of_another_type, "P0638"),
      PIPER_DAMAGE(working_copy_saved, "P0638"),
      PIPER_DAMAGE(master_saved_by_nobody, "P0638"),
      PIPER_DAMAGE(master_read_by_a_program, "P0637"),
      PIPER_DAMAGE(master_of_another_type, "P0638"),
      PIPER_DAMAGE(overflow_not_looked_for, "P0636"),
      PIPER_DAMAGE(overflow_kept_to_oneself, "P0636"),
      PIPER_DAMAGE(overflow_of_fewer_gradients, "P0636"),
      PIPER_DAMAGE(update_in_spite_of_overflow, "P0638"),
      PIPER_DAMAGE(step_counted_in_spite_of_overflow, "P0638"),
      PIPER_DAMAGE(loss_scale_does_not_follow, "P0635", "P0638"),
      PIPER_DAMAGE(gradient_not_unscaled, "P0635", "P0638"),
      PIPER_DAMAGE(loss_not_scaled, "P0635", "P0637"),
      PIPER_DAMAGE(loss_scaled_by_something_else, "P0633", "P0635", "P0637"),
  };
}

}  // namespace piper::damages
