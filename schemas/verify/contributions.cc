#include "schemas/verify/contributions.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "schemas/verify/held_name.h"
#include "schemas/verify/rules.h"

namespace piper::verify {
namespace {

using namespace plan;

bool same(const Operand& a, const Operand& b) {
  return a.slot == b.slot && a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}
bool same(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return same(x, y); });
}
bool same(const KernelCall& a, const KernelCall& b) {
  const auto equal = [](const Attr& x, const Attr& y) { return x.name == y.name && x.value == y.value; };
  return a.kernel == b.kernel && same(a.outputs, b.outputs) && same(a.inputs, b.inputs) &&
         std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(), b.attrs.end(), equal);
}

// Whether an output of `call` may lie over an input of `reader`.
bool writes_inputs(const KernelCall& call, const KernelCall& reader) {
  const auto meet = [](const Operand& out, const Operand& in) {
    const auto end = [](const Operand& operand) {
      int64_t last = 0;
      for (size_t axis = 0; axis < operand.shape.size(); ++axis)
        last += std::max<int64_t>(operand.shape[axis] - 1, 0) * operand.strides.at(axis);
      return operand.offset + (last + 1) * dtype_bytes(operand.dtype);
    };
    return out.slot != Operand::kAbsent && out.slot == in.slot && out.offset < end(in) && in.offset < end(out);
  };
  return std::any_of(call.outputs.begin(), call.outputs.end(), [&](const Operand& out) {
    return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](const Operand& in) { return meet(out, in); });
  });
}

// How often a chunk's forward reads each parameter by one kernel: of its kernels and its forwards of different local
// batches, the one that does so most. Uses by different kernels add different things.
using Uses = std::map<std::pair<int32_t, std::string>, int64_t>;  // by chunk and tensor
Uses count_uses(const std::vector<Program>& programs) {
  Uses most;
  for (const Program& program : programs) {
    if (!program.of || program.of->pass != Pass::kForward) continue;
    std::map<std::pair<int32_t, Kernel>, int64_t> reads;  // by slot and kernel
    for (const KernelCall& call : program.calls)
      for (const Operand& input : call.inputs)
        if (input.slot >= 0 && program.slots.at(static_cast<size_t>(input.slot)).role == SlotRole::kParameter)
          ++reads[{input.slot, call.kernel.id()}];
    for (const auto& [read, count] : reads) {
      int64_t& uses = most[{program.of->chunk, program.slots[static_cast<size_t>(read.first)].of}];
      uses = std::max(uses, count);
    }
  }
  return most;
}

Status check(const Program& program, const Uses& uses) {
  std::map<std::pair<int32_t, int64_t>, std::vector<size_t>> added;  // by place: calls that add there
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const KernelCall& call = program.calls[c];
    if (!call.accumulate || call.outputs.empty() || call.outputs[0].slot < 0) continue;
    const Slot& slot = program.slots.at(static_cast<size_t>(call.outputs[0].slot));
    if (slot.role != SlotRole::kGradient) continue;
    auto& earlier = added[{call.outputs[0].slot, call.outputs[0].offset}];
    int64_t alike = 1;
    size_t first = c;
    for (size_t e = earlier.size(); e-- > 0;) {
      if (!same(program.calls[earlier[e]], call)) continue;
      const auto begin = program.calls.begin() + static_cast<std::ptrdiff_t>(earlier[e]),
                 end = program.calls.begin() + static_cast<std::ptrdiff_t>(c);
      if (std::any_of(begin, end, [&](const KernelCall& between) { return writes_inputs(between, call); })) break;
      ++alike;
      first = earlier[e];
    }
    earlier.push_back(c);
    if (alike == 1) continue;
    const auto used = program.of && !slot.of.empty() ? uses.find({program.of->chunk, slot.of}) : uses.end();
    if (used != uses.end() && used->second >= alike) continue;
    return violates(Rule::kSums, "program " + program.name + " call " + std::to_string(c) + " (" + call.kernel.text() +
                                     (call.origin.empty() ? "" : " of " + call.origin) + ") adds to slot \"" +
                                     held_name(slot) + "\" what call " + std::to_string(first) + " has added");
  }
  return {};
}

}  // namespace

Status check_contributions(const std::vector<Program>& programs) {
  const Uses uses = count_uses(programs);
  for (const Program& program : programs) PIPER_RETURN_IF_ERROR(check(program, uses));
  return {};
}

}  // namespace piper::verify
