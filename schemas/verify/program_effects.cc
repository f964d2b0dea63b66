#include "schemas/verify/program_effects.h"

#include <algorithm>
#include <optional>

#include "schemas/plan/attrs.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/verify/held_name.h"

namespace piper::verify {

using namespace plan;

int32_t Names::id(const std::string& name) {
  const auto [it, fresh] = ids_.emplace(name, static_cast<int32_t>(names_.size()));
  if (fresh) names_.push_back(name);
  return it->second;
}
int32_t Names::find(const std::string& name) const {
  const auto it = ids_.find(name);
  return it == ids_.end() ? -1 : it->second;
}
int32_t Labels::id(const std::string& name, StepNumber number) {
  const auto [it, fresh] = ids_.emplace(std::pair(name, number), static_cast<int32_t>(all_.size()));
  if (fresh) all_.push_back(it->first);
  return it->second;
}
int32_t Addends::id(const Addend& addend) {
  const auto [it, fresh] =
      ids_.emplace(std::tuple(addend.chunk, addend.slot, addend.tensor, addend.number, addend.share),
                   static_cast<int32_t>(all_.size()));
  if (fresh) all_.push_back(addend);
  return it->second;
}

namespace {

bool dense(const Operand& operand) {
  int64_t stride = 1;
  for (size_t axis = operand.shape.size(); axis-- > 0;) {
    if (operand.shape[axis] != 1 && operand.strides.at(axis) != stride) return false;
    stride *= operand.shape[axis];
  }
  return true;
}

using Op = ProgramEffects::Op;

std::optional<ProgramEffects::Call> followed(const KernelCall& call) {
  ProgramEffects::Call result;
  size_t inputs = 1, outputs = 1;
  switch (call.kernel.id()) {
    case Kernel::kFill:
      if (!is_zero_fill(call)) return std::nullopt;
      inputs = 0;
      break;
    case Kernel::kCopy: result.op = call.accumulate ? Op::kAddInto : Op::kCopy; break;
    case Kernel::kAdd: result.op = Op::kAdd, inputs = 2; break;
    case Kernel::kAddInto:
      if (!call.accumulate) return std::nullopt;
      result.op = Op::kAddInto;
      break;
    case Kernel::kSquareSum: result.op = Op::kSquareSum; break;
    case Kernel::kOverflows: result.op = Op::kOverflows; break;
    case Kernel::kClipScale: result.op = Op::kClip, outputs = 2, inputs = call.inputs.size(); break;
    case Kernel::kUnscale: result.op = Op::kUnscale; break;
    case Kernel::kAdvance: result.op = Op::kAdvance, inputs = call.inputs.size(); break;
    case Kernel::kAdvanceLossScale: result.op = Op::kAdvanceLossScale, outputs = 2; break;
    default: return std::nullopt;  // not followed
  }
  if (call.inputs.size() != inputs || call.outputs.size() != outputs) return std::nullopt;
  const auto take = [](const std::vector<Operand>& operands, std::vector<ProgramEffects::Place>& places) {
    for (const auto& operand : operands) {
      if (operand.slot == Operand::kAbsent || !dense(operand)) return false;
      places.push_back({operand.slot, operand.offset, dense_bytes(operand), operand.dtype});
    }
    return true;
  };
  if (!take(call.outputs, result.outputs) || !take(call.inputs, result.inputs)) return std::nullopt;
  // Element by element: nothing is repeated or converted on the way.
  if (result.op == Op::kCopy || result.op == Op::kAdd || result.op == Op::kAddInto)
    for (const auto& input : result.inputs)
      if (input.bytes != result.outputs[0].bytes || input.dtype != result.outputs[0].dtype) return std::nullopt;
  return result;
}

class Summary {
 public:
  Summary(const Bundle& bundle, const Program& program, const Names& tensors, Labels& labels, Addends& addends)
      : program_(program), compared_(!bundle.reference.empty()), tensors_(tensors), labels_(labels), addends_(addends) {
    if (program.of) chunk_ = bundle.manifest.chunks.at(static_cast<size_t>(program.of->chunk)).name;
  }

  ProgramEffects make() {
    if (!chunk_ && follow()) return std::move(effects_);
    effects_ = {};
    for (const Slot& slot : program_.slots) effects_.slots.push_back(held_name(slot));
    if (!chunk_ && compared_)
      effects_.not_run = "a program of no chunk that does more than copy, add, clear, clip and count";
    for (size_t s = 0; s < program_.slots.size(); ++s) bind(static_cast<int32_t>(s));
    for (const auto& call : program_.calls) visit(call);
    return std::move(effects_);
  }

 private:
  bool follow() {
    for (const auto& call : program_.calls) {
      auto step = followed(call);
      if (!step) return false;
      // Without `accumulate` the sum replaces what is there: cleared first, then added to.
      if ((step->op == Op::kSquareSum || step->op == Op::kOverflows) && !call.accumulate)
        effects_.calls.push_back({Op::kClear, step->outputs, {}});
      effects_.calls.push_back(std::move(*step));
    }
    effects_.follow = true;
    return true;
  }

  // Values that chunks exchange are named alike everywhere; saved blocks within a chunk.
  int32_t label(const Slot& slot) {
    if (slot.role == SlotRole::kSaved) return labels_.id(chunk_.value_or(program_.name) + '\n' + slot.name);
    return labels_.id(held_name(slot), slot.holds);
  }

  int32_t tensor_of(const Slot& slot) const { return slot.of.empty() ? -1 : tensors_.find(slot.of); }

  void bind(int32_t index) {
    const auto& slot = program_.slots[static_cast<size_t>(index)];
    const bool only_read =
        slot.role == SlotRole::kInput || slot.role == SlotRole::kParameter || slot.role == SlotRole::kConstant;
    if (effects_.not_run.empty() && slot.role == SlotRole::kMoment)
      effects_.not_run = "a program that has a moment of the optimizer in slot " + in_quotes(slot.name);
    if (effects_.not_run.empty() && only_read && slot.writes)
      effects_.not_run = "a program that writes slot " + in_quotes(slot.name) + ", whose role is to be read";
    switch (slot.role) {
      case SlotRole::kInput:
      case SlotRole::kOutput:
      case SlotRole::kSaved:
        if (slot.reads) effects_.reads.push_back({index, label(slot), slot.bytes});
        if (slot.writes) effects_.writes.push_back({index, label(slot), slot.bytes});
        break;
      case SlotRole::kScalar:
        if (slot.reads) effects_.scalars.push_back({index, label(slot), slot.bytes});
        if (slot.writes) effects_.writes.push_back({index, label(slot), slot.bytes});
        break;
      case SlotRole::kParameter: effects_.parameters.push_back({index, tensor_of(slot), slot.bytes}); break;
      case SlotRole::kConstant: effects_.constants.push_back({index, -1, slot.bytes}); break;
      case SlotRole::kState: effects_.statistics.push_back({index, tensor_of(slot), slot.bytes}); break;
      case SlotRole::kGradient:
      case SlotRole::kMoment: break;
    }
  }

  bool on_sum(const Operand& operand) const {
    return operand.slot >= 0 && program_.slots[static_cast<size_t>(operand.slot)].role == SlotRole::kGradient;
  }
  void act(int32_t slot, ProgramEffects::Do what) {
    const Slot& sum = program_.slots[static_cast<size_t>(slot)];
    int32_t addend = -1;
    if (what == ProgramEffects::Do::kAdd || what == ProgramEffects::Do::kAssign)
      addend = addends_.id({chunk_.value_or(program_.name), held_name(sum), tensor_of(sum), sum.holds,
                            sum.spread == plan::Spread::kShare ? sum.cut : -1});
    // Several calls that add to one slot are one contribution of the run.
    for (size_t i = effects_.sums.size(); i-- > 0;) {
      if (effects_.sums[i].slot != slot) continue;
      if (effects_.sums[i].act == what ||
          (effects_.sums[i].act == ProgramEffects::Do::kAssign && what == ProgramEffects::Do::kAdd))
        return;
      break;
    }
    effects_.sums.push_back({slot, what, addend, sum.bytes});
  }

  void visit(const KernelCall& call) {
    for (const auto& input : call.inputs)
      if (on_sum(input)) act(input.slot, ProgramEffects::Do::kConsume);
    for (const auto& output : call.outputs)
      if (on_sum(output))
        act(output.slot, call.accumulate      ? ProgramEffects::Do::kAdd
                         : is_zero_fill(call) ? ProgramEffects::Do::kClear
                                              : ProgramEffects::Do::kAssign);
    // What no sample is in has one mask for all of them, by a constant: rule 12 compares what it holds.
    if (call.kernel == Kernel::kDropout && call.inputs.size() >= 3 && !is_constant(call.inputs[2]))
      add_sample_offset(call.inputs[2]);
    for (const Operand& input : call.inputs)
      if (input.slot >= 0 && program_.slots[static_cast<size_t>(input.slot)].holds == StepNumber::kSampleOffset)
        add_sample_offset(input);
  }
  bool is_constant(const Operand& operand) const {
    return operand.slot >= 0 && program_.slots[static_cast<size_t>(operand.slot)].role == SlotRole::kConstant;
  }
  void add_sample_offset(const Operand& offset) {
    auto& slots = effects_.sample_offsets;
    const int32_t slot = offset.slot >= 0 && offset.offset == 0 ? offset.slot : -1;
    if (std::find(slots.begin(), slots.end(), slot) == slots.end()) slots.push_back(slot);
  }

  const Program& program_;
  const bool compared_;  // with the model: what programs of chunks calculate is looked at
  const Names& tensors_;
  Labels& labels_;
  Addends& addends_;
  std::optional<std::string> chunk_;
  ProgramEffects effects_;
};

}  // namespace

std::vector<ProgramEffects> program_effects(const Bundle& bundle, const Names& tensors, Labels& labels,
                                            Addends& addends) {
  std::vector<ProgramEffects> effects;
  for (const auto& program : bundle.programs)
    effects.push_back(Summary(bundle, program, tensors, labels, addends).make());
  return effects;
}

}  // namespace piper::verify
