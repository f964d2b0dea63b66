// Damages that look right from every rank: types said alike on all members, values of one type exchanged, sums made
// twice, roles that hide a sum, tensors that quietly stay as they are.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "schemas/plan/chunk_names.h"
#include "tests/unit/plan_damage_edits.h"
#include "tests/unit/plan_damages.h"

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
      if (!starts(call.kernel, "layer_norm_backward") || call.inputs[2].slot < 0) continue;
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

// Of a tensor that has a buffer of its own: its accumulator is neither written, measured, reduced nor used.
bool trained_tensor_left_as_it_is(Bundle& b) {
  if (b.ranks.size() != 1 || b.manifest.clip_grad_norm > 0) return false;
  RankPlan& plan = b.ranks[0];
  for (const TensorInfo& tensor : b.manifest.tensors) {
    const auto is_gradient = [&](const Placement& p) {
      return p.name == tensor.name && p.kind == PlacementKind::kGradient;
    };
    const auto placed = std::find_if(plan.placements.begin(), plan.placements.end(), is_gradient);
    if (placed == plan.placements.end()) continue;
    const int32_t buffer = placed->part.where.buffer;
    const auto shares = [&](const Placement& p) { return p.part.where.buffer == buffer; };
    if (std::count_if(plan.placements.begin(), plan.placements.end(), shares) != 1) continue;
    auto& list = plan.instructions.edit();
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](const Instruction& instruction) {
                                const auto* update = std::get_if<Update>(&instruction.action);
                                if (update == nullptr) return false;
                                const auto& arguments =
                                    plan.arguments[static_cast<size_t>(update->arguments)].arguments;
                                return std::any_of(arguments.begin(), arguments.end(),
                                                   [&](const BufferRange& where) { return where.buffer == buffer; });
                              }),
               list.end());
    for (Program& program : b.programs)
      for (size_t s = 0; s < program.slots.size(); ++s) {
        if (tensor_of_gradient_slot(program.slots[s].name) != tensor.name) continue;
        program.slots[s].writes = false;
        auto& calls = program.calls;
        calls.erase(std::remove_if(calls.begin(), calls.end(),
                                   [&](const KernelCall& call) {
                                     return std::any_of(
                                         call.outputs.begin(), call.outputs.end(),
                                         [&](const Operand& out) { return out.slot == static_cast<int32_t>(s); });
                                   }),
                    calls.end());
      }
    const std::string name = tensor.name;
    plan.placements.erase(
        std::remove_if(plan.placements.begin(), plan.placements.end(),
                       [&](const Placement& p) { return p.name == name && p.kind != PlacementKind::kValue; }),
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
      std::swap(program.slots[static_cast<size_t>(call.inputs[3].slot)].name,
                program.slots[static_cast<size_t>(call.inputs[4].slot)].name);
      any = true;
    }
  return any;
}

}  // namespace

std::vector<Damage> of_types() {
  return {
      PIPER_DAMAGE(reduction_said_as_i32, "P0637"),
      PIPER_DAMAGE(reduction_said_as_f64_of_half_the_count, "P0637"),
      PIPER_DAMAGE(reduction_said_as_bf16_of_double_the_count, "P0637"),
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
