#include "schemas/verify/numbers/reference.h"

#include <algorithm>
#include <set>

#include "schemas/plan/file_bytes.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/signature.h"
#include "schemas/verify/numbers/constants.h"
#include "schemas/verify/numbers/constants_of_samples.h"
#include "schemas/verify/rules.h"

namespace piper::verify {

using namespace plan;

namespace {

// SHA-256 of a constant; of those that grow with the samples, at the step's batch.
std::string digest_of(const Reference::Constant& constant, int64_t batch, NumberTable& table) {
  if (!constant.sha256.empty()) return constant.sha256;
  const auto value = static_cast<float>(constant.per_sample * static_cast<double>(batch));
  (void)constant_of(value, table);  // known from now on
  return sha256({reinterpret_cast<const char*>(&value), sizeof value});
}

}  // namespace

Status check_reference(const Reference& reference) {
  for (const KernelCall& call : reference.program.calls) {
    const KernelInfo* const kernel = find_kernel(call.kernel);
    const std::string wrong = kernel == nullptr ? "is no kernel" : misfit(*kernel, call);
    if (wrong.empty()) continue;
    const auto index = static_cast<int32_t>(&call - reference.program.calls.data());
    return violates(Rule::kEquality, "the model's " + tell_call(reference.program, index) +
                                         (kernel == nullptr ? " " : " does not fit its kernel: ") + wrong);
  }
  return {};
}

NumberedProgram number_reference(const Reference& reference, const Leaves& leaves, NumberTable& table) {
  NumberedProgram run;
  run.program = &reference.program;
  run.index = kReferenceProgram;
  run.samples = leaves.samples_of(reference.program);
  run.by_pieces = run.samples != Reference::kSamples;
  run.whole = !run.by_pieces || run.samples == leaves.batch();
  run.batch = leaves.batch();
  run.slots.resize(reference.program.slots.size());
  auto constant = reference.constants.begin();
  for (size_t s = 0; s < reference.program.slots.size(); ++s) {
    const Slot& slot = reference.program.slots[s];
    std::string sha256;
    const bool told = constant != reference.constants.end() && constant->slot == static_cast<int32_t>(s);
    if (told && constant->has_samples()) {
      run.slots[s].put(0, held_constant(reference, *constant++, leaves.batch(), table));
      continue;
    }
    if (told) sha256 = digest_of(*constant++, leaves.batch(), table);
    const int32_t leaf = leaves.of_slot(slot, run.samples, sha256, table);
    if (leaf >= 0) run.slots[s].put(0, {slot.bytes, 0, leaf});
  }
  number_program(run, table);
  return run;
}

bool is_result(const Manifest& manifest, const Slot& slot) {
  return manifest.evaluates || slot.holds == StepNumber::kLoss || slot.holds == StepNumber::kDropped ||
         (slot.role == SlotRole::kGradient && !slot.of.empty());
}

int32_t first_new(const NumberTable& table, int32_t from, const std::function<bool(int32_t)>& is_new) {
  std::set<int32_t> seen;
  while (seen.insert(from).second) {
    const auto& operands = table[from].operands;
    const auto next = std::find_if(operands.begin(), operands.end(),
                                   [&](const View& view) { return view.number >= 0 && is_new(view.number); });
    if (next == operands.end()) return from;
    from = next->number;
  }
  return from;
}

std::string tell_call(const Program& program, int32_t call) {
  const KernelCall& c = program.calls[static_cast<size_t>(call)];
  return "call " + std::to_string(call) + " (" + c.kernel.text() + " of \"" + c.origin + "\")";
}

}  // namespace piper::verify
