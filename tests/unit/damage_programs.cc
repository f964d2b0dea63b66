// Damages inside of programs that rule 7 of the proof must find: the bytes that calls read, write and share.
#include <algorithm>

#include "schemas/plan/kernels.h"
#include "tests/unit/plan_damage_edits.h"
#include "tests/unit/plan_damages.h"

namespace piper::damages {
namespace {

using namespace plan;

bool in_workspace(const Operand& operand) { return operand.slot == Operand::kWorkspace; }
bool writes_slot(const KernelCall& call, const Program& program, SlotRole role) {
  return std::any_of(call.outputs.begin(), call.outputs.end(), [&](const Operand& out) {
    return out.slot >= 0 && program.slots[static_cast<size_t>(out.slot)].role == role;
  });
}

// Whether `change` did something to a program that computes.
template <class Change>
bool in_some_program(Bundle& b, Change change) {
  return std::any_of(b.programs.begin(), b.programs.end(),
                     [&](Program& program) { return makes_values(program) && change(program); });
}

// The first call that writes to the workspace: what it writes, none has written before.
std::vector<KernelCall>::iterator first_into_workspace(Program& program) {
  return std::find_if(program.calls.begin(), program.calls.end(),
                      [](const KernelCall& call) { return !call.outputs.empty() && in_workspace(call.outputs[0]); });
}

bool call_that_makes_an_output_left_out(Bundle& b) {
  return in_some_program(b, [](Program& program) {
    const auto found = std::find_if(program.calls.begin(), program.calls.end(), [&](const KernelCall& call) {
      return writes_slot(call, program, SlotRole::kOutput) && !call.accumulate;
    });
    if (found == program.calls.end()) return false;
    program.calls.erase(found);
    return true;
  });
}
bool call_that_makes_a_workspace_value_left_out(Bundle& b) {
  return in_some_program(b, [](Program& program) {
    const auto found = first_into_workspace(program);
    if (found == program.calls.end()) return false;
    program.calls.erase(found);
    return true;
  });
}
bool calls_exchanged(Bundle& b) {
  return in_some_program(b, [](Program& program) {
    const auto made = first_into_workspace(program);
    if (made == program.calls.end() || made + 1 == program.calls.end()) return false;
    const Operand& value = made->outputs[0];
    const auto reads = [&](const Operand& in) { return in_workspace(in) && in.offset == value.offset; };
    if (!std::any_of((made + 1)->inputs.begin(), (made + 1)->inputs.end(), reads)) return false;
    std::iter_swap(made, made + 1);
    return true;
  });
}
bool workspace_read_as_another_type(Bundle& b) {
  return in_some_program(b, [](Program& program) {
    for (KernelCall& call : program.calls)
      for (Operand& in : call.inputs)
        if (in_workspace(in) && in.dtype == DType::kF32) {
          in.dtype = DType::kI32;
          return true;
        }
    return false;
  });
}
bool output_over_its_input(Bundle& b) {
  return in_some_program(b, [](Program& program) {
    for (KernelCall& call : program.calls)
      if (const KernelInfo* info = find_kernel(call.kernel); info->in_place < 0 && !call.outputs.empty())
        for (const Operand& in : call.inputs)
          if (in_workspace(in) && in_workspace(call.outputs[0]) && elements(in) > 0) {
            call.outputs[0].offset = in.offset;
            return true;
          }
    return false;
  });
}
bool outputs_over_one_another(Bundle& b) {
  return in_some_program(b, [](Program& program) {
    for (KernelCall& call : program.calls)
      if (call.outputs.size() > 1 && call.outputs[0].slot != Operand::kAbsent &&
          call.outputs[0].slot == call.outputs[1].slot) {
        call.outputs[1].offset = call.outputs[0].offset;
        return true;
      }
    return false;
  });
}
bool half_of_a_gradient_written(Bundle& b) {
  return in_some_program(b, [](Program& program) {
    for (KernelCall& call : program.calls) {
      if (!writes_slot(call, program, SlotRole::kGradient) || call.kernel != "sum") continue;
      Operand& out = call.outputs[0];
      if (out.shape.size() != 1 || out.shape[0] < 2) continue;
      out.shape[0] /= 2;
      return true;
    }
    return false;
  });
}

bool declared_read_that_no_call_makes(Bundle& b) {
  for (Program& program : b.programs)
    for (size_t s = 0; s < program.slots.size(); ++s) {
      const auto reads = [&](const plan::KernelCall& call) {
        return std::any_of(call.inputs.begin(), call.inputs.end(),
                           [&](const auto& input) { return input.slot == static_cast<int32_t>(s); });
      };
      if (program.slots[s].role != SlotRole::kOutput || std::any_of(program.calls.begin(), program.calls.end(), reads))
        continue;
      program.slots[s].reads = true;
      return true;
    }
  return false;
}

}  // namespace

std::vector<Damage> of_programs() {
  return {
      PIPER_DAMAGE(call_that_makes_an_output_left_out, "P0635"),
      PIPER_DAMAGE(call_that_makes_a_workspace_value_left_out, "P0635"),
      PIPER_DAMAGE(calls_exchanged, "P0635"),
      PIPER_DAMAGE(workspace_read_as_another_type, "P0635"),
      PIPER_DAMAGE(output_over_its_input, "P0635"),
      PIPER_DAMAGE(outputs_over_one_another, "P0635"),
      PIPER_DAMAGE(half_of_a_gradient_written, "P0635"),
      PIPER_DAMAGE(declared_read_that_no_call_makes, "P0635"),
  };
}

}  // namespace piper::damages
