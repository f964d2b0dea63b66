#include "schemas/verify/check_programs.h"

#include "schemas/plan/kernels.h"
#include "schemas/plan/signature.h"
#include "schemas/verify/rules.h"

namespace piper::verify {
namespace {

using namespace plan;

Status check_operand(const Program& program, size_t call, const Operand& operand, bool reads, bool writes) {
  if (operand.slot < 0) return {};
  const auto& slot = program.slots.at(static_cast<size_t>(operand.slot));
  if ((!reads || slot.reads) && (!writes || slot.writes)) return {};
  return violates(Rule::kPrograms, "program " + program.name + " call " + std::to_string(call) + " (" +
                                       program.calls[call].kernel.text() +
                                       (writes && !slot.writes ? ") writes" : ") reads") + " slot \"" + slot.name +
                                       "\", which does not declare it");
}

bool is_in_place(const std::vector<OperandSignature>& operands, size_t index) {
  return index < operands.size() && operands[index].in_place;
}

}  // namespace

Status check_program(const Program& program) {
  std::vector<char> written(program.slots.size()), read(program.slots.size());
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const auto& call = program.calls[c];
    const KernelInfo* const kernel = find_kernel(call.kernel);
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const Operand& input = call.inputs[i];
      // What the program itself wrote it may read: a saved value, an output used further on.
      const bool own = input.slot >= 0 && written.at(static_cast<size_t>(input.slot));
      const bool changed = kernel != nullptr && is_in_place(signature_of(*kernel).inputs, i);
      PIPER_RETURN_IF_ERROR(check_operand(program, c, input, !own, changed));
      if (input.slot < 0) continue;
      read[static_cast<size_t>(input.slot)] = 1;
      if (changed) written[static_cast<size_t>(input.slot)] = 1;
    }
    const bool in_place = kernel != nullptr && kernel->reads_outputs;
    for (const auto& output : call.outputs) {
      const bool own = output.slot >= 0 && written.at(static_cast<size_t>(output.slot));
      PIPER_RETURN_IF_ERROR(check_operand(program, c, output, (call.accumulate || in_place) && !own, true));
      if (output.slot < 0) continue;
      written[static_cast<size_t>(output.slot)] = 1;
      if (call.accumulate || in_place) read[static_cast<size_t>(output.slot)] = 1;
    }
  }
  // A factor that a call in place was to take is missed by nobody else. A program without calls leaves out none.
  for (size_t i = 0; i < program.slots.size() && !program.calls.empty(); ++i)
    if (program.slots[i].reads && program.slots[i].bytes > 0 && !read[i])
      return violates(Rule::kPrograms, "program " + program.name + " declares to read slot \"" + program.slots[i].name +
                                           "\", and no call does");
  return {};
}

}  // namespace piper::verify
