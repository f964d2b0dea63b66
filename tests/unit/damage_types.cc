// Damages that look right from every rank: types said alike on all members, values of one type exchanged, sums made
// twice, roles that hide a sum, tensors that quietly stay as they are.
#include <algorithm>
#include <utility>

#include "tests/unit/plan_damage_edits.h"
#include "tests/unit/plan_damages.h"
#include "tests/unit/plan_updates.h"

namespace piper::damages {
namespace {

using namespace plan;

// As many bytes as before, of elements of `type`, on all members of the first reduction, in the buffer's declaration,
// too.
bool reduction_said_as(Bundle& b, DType type) {
  bool any = false;
  for (const At at : first_reduction(b)) {
    auto& reduce = std::get<AllReduce>(get(b, at).action);
    const int64_t bytes = reduce.bytes();
    if (reduce.types.data == type || bytes % dtype_bytes(type) != 0) return false;
    reduce.count = bytes / dtype_bytes(type);
    reduce.types = SumTypes(type);
    b.ranks[at.rank].buffers.edit()[static_cast<size_t>(reduce.data.buffer)].dtype = type;
    any = true;
  }
  return any;
}
bool reduction_said_as_i32(Bundle& b) { return reduction_said_as(b, DType::kI32); }
bool reduction_said_as_f64_of_half_the_count(Bundle& b) { return reduction_said_as(b, DType::kF64); }
bool reduction_said_as_bf16_of_double_the_count(Bundle& b) { return reduction_said_as(b, DType::kBF16); }

bool tied_gradients_added_as_i32(Bundle& b) {
  bool any = false;
  for (Program& program : b.programs) {
    if (!starts(program.name, "combine")) continue;
    for (KernelCall& call : program.calls)
      for (auto* operands : {&call.outputs, &call.inputs})
        for (Operand& operand : *operands) operand.dtype = DType::kI32, any = true;
  }
  return any;
}

bool mean_and_rstd_exchanged(Bundle& b) {
  bool any = false;
  for (Program& program : b.programs)
    for (KernelCall& call : program.calls) {
      if (!starts(call.kernel.text(), "layer_norm_backward") || call.inputs[2].slot < 0) continue;
      std::swap(call.inputs[2].offset, call.inputs[3].offset);
      any = true;
    }
  return any;
}
bool mean_written_as_rstd(Bundle& b) {
  for (Program& program : b.programs)
    for (KernelCall& call : program.calls)
      if (call.kernel == "layer_norm" && call.outputs.size() == 3 && call.outputs[1].slot >= 0) {
        std::swap(call.outputs[1], call.outputs[2]);
        return true;
      }
  return false;
}
bool call_that_saves_a_value_left_out(Bundle& b) {
  for (Program& program : b.programs) {
    const auto saves = [&](const KernelCall& call) {
      return call.outputs.size() == 1 && call.outputs[0].slot >= 0 &&
             program.slots[static_cast<size_t>(call.outputs[0].slot)].role == SlotRole::kSaved;
    };
    // The last one: what it saves no call of the program reads.
    const auto last = std::find_if(program.calls.rbegin(), program.calls.rend(), saves);
    if (last == program.calls.rend()) continue;
    const Operand& saved = last->outputs[0];
    const auto reads = [&](const KernelCall& call) {
      return std::any_of(call.inputs.begin(), call.inputs.end(),
                         [&](const Operand& in) { return in.slot == saved.slot && in.offset == saved.offset; });
    };
    if (std::any_of(last.base(), program.calls.end(), reads)) continue;
    program.calls.erase(std::next(last).base());
    return true;
  }
  return false;
}

bool accumulating_call_stands_twice(Bundle& b) {
  for (Program& program : b.programs) {
    if (!adds_gradients(program)) continue;
    for (size_t c = 0; c < program.calls.size(); ++c) {
      const KernelCall call = program.calls[c];
      if (!call.accumulate || call.outputs[0].slot < 0) continue;
      program.calls.insert(program.calls.begin() + static_cast<std::ptrdiff_t>(c), call);
      return true;
    }
  }
  return false;
}

bool gradients_said_to_be_states(Bundle& b) {
  const auto found = backwards(b);
  if (found.empty()) return false;
  const int32_t chosen = std::get<Run>(get(b, found[0]).action).program;
  for (Slot& slot : b.programs[static_cast<size_t>(chosen)].slots)
    if (slot.role == SlotRole::kGradient) slot.role = SlotRole::kState;
  for (size_t k = found.size(); k-- > 0;)
    if (const Instruction run = get(b, found[k]); std::get<Run>(run.action).program == chosen) insert(b, found[k], run);
  return true;
}

// A tensor that is updated alone is updated no longer: its gradient is neither made nor placed.
bool trained_tensor_left_as_it_is(Bundle& b) {
  if (b.ranks.size() != 1 || b.manifest.clip_grad_norm > 0 || b.manifest.loss_scale > 0) return false;
  RankPlan& plan = b.ranks[0];
  for (const At at : find<Update>(b)) {
    const auto ranges = example::ranges_of(b, plan, std::get<Update>(get(b, at).action));
    const int64_t end = ranges.gradient.offset + ranges.count * dtype_bytes(DType::kF32);
    std::vector<std::string> names;
    for (const Placement& p : plan.placements)
      if (p.kind == PlacementKind::kGradient && p.part.where.buffer == ranges.gradient.buffer &&
          p.part.where.offset >= ranges.gradient.offset && p.part.where.offset < end)
        names.push_back(p.name);
    if (names.size() != 1) continue;
    erase(b, at);
    for (Program& program : b.programs) {
      for (size_t s = 0; s < program.slots.size(); ++s) {
        if (program.slots[s].role != SlotRole::kGradient || program.slots[s].of != names[0]) continue;
        program.slots[s].writes = false;
        program.calls.erase(
            std::remove_if(program.calls.begin(), program.calls.end(),
                           [&](const KernelCall& call) { return call.outputs[0].slot == static_cast<int32_t>(s); }),
            program.calls.end());
      }
      undeclare_unread(program);
    }
    plan.placements.erase(
        std::remove_if(plan.placements.begin(), plan.placements.end(),
                       [&](const Placement& p) { return p.name == names[0] && p.kind != PlacementKind::kValue; }),
        plan.placements.end());
    return true;
  }
  return false;
}

bool updates_of_another_group(Bundle& b) {
  if (b.manifest.optimizer.groups.size() < 2) return false;
  bool any = false;
  for (const At at : find<Update>(b)) {
    auto& update = std::get<Update>(get(b, at).action);
    update.group = 1 - update.group;
    any = true;
  }
  return any;
}

bool statistics_exchanged(Bundle& b) {
  bool any = false;
  for (Program& program : b.programs)
    for (KernelCall& call : program.calls) {
      if (call.kernel != "batch_norm" || call.inputs.size() < 5 || call.inputs[3].slot < 0) continue;
      std::swap(program.slots[static_cast<size_t>(call.inputs[3].slot)].of,
                program.slots[static_cast<size_t>(call.inputs[4].slot)].of);
      any = true;
    }
  return any;
}

}  // namespace

std::vector<Damage> of_types() {
  return {
      PIPER_DAMAGE(reduction_said_as_i32, "P0631", "P0637"),
      PIPER_DAMAGE(reduction_said_as_f64_of_half_the_count, "P0631", "P0637"),
      PIPER_DAMAGE(reduction_said_as_bf16_of_double_the_count, "P0631", "P0637"),
      PIPER_DAMAGE(tied_gradients_added_as_i32, "P0635", "P0636", "P0637"),
      PIPER_DAMAGE(mean_and_rstd_exchanged, "P0637"),
      PIPER_DAMAGE(mean_written_as_rstd, "P0637"),
      PIPER_DAMAGE(call_that_saves_a_value_left_out, "P0637"),
      PIPER_DAMAGE(accumulating_call_stands_twice, "P0636"),
      PIPER_DAMAGE(gradients_said_to_be_states, "P0637"),
      PIPER_DAMAGE(trained_tensor_left_as_it_is, "P0638"),
      PIPER_DAMAGE(updates_of_another_group, "P0638"),
      PIPER_DAMAGE(statistics_exchanged, "P0637"),
  };
}

}  // namespace piper::damages
