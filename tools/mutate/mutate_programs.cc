// Programs: operands, calls and slots.
#include <algorithm>
#include <utility>

#include "schemas/plan/kernels.h"
#include "tools/mutate/mutation.h"

namespace piper::mutate {
namespace {

using namespace plan;

Program* program(Draft& draft) {
  return draft.bundle.programs.empty() ? nullptr : &draft.random.of(draft.bundle.programs);
}
KernelCall* call(Draft& draft) {
  Program* const chosen = program(draft);
  return chosen == nullptr || chosen->calls.empty() ? nullptr : &draft.random.of(chosen->calls);
}
std::vector<Operand*> operands(KernelCall& call) {
  std::vector<Operand*> all;
  for (auto* list : {&call.outputs, &call.inputs})
    for (Operand& operand : *list)
      if (operand.slot != Operand::kAbsent) all.push_back(&operand);
  return all;
}
Operand* operand(Draft& draft) {
  KernelCall* const chosen = call(draft);
  if (chosen == nullptr) return nullptr;
  const auto all = operands(*chosen);
  return all.empty() ? nullptr : draft.random.of(all);
}

bool offset(Draft& draft) {
  Operand* const chosen = operand(draft);
  if (chosen == nullptr) return false;
  const int64_t step = dtype_bytes(chosen->dtype) * (draft.random.coin() ? 1 : 16);
  chosen->offset += draft.random.coin() || chosen->offset < step ? step : -step;
  return true;
}
bool element_type(Draft& draft) {
  Operand* const chosen = operand(draft);
  if (chosen == nullptr) return false;
  static constexpr DType kTypes[] = {DType::kF32,  DType::kI32, DType::kF64, DType::kI64,
                                     DType::kBF16, DType::kF16, DType::kBool};
  const DType before = chosen->dtype;
  chosen->dtype = kTypes[draft.random.below(std::size(kTypes))];
  return chosen->dtype != before;
}
// The same bytes as elements of another type of their size, in all operands of a call.
bool types_of_a_call(Draft& draft) {
  KernelCall* const chosen = call(draft);
  if (chosen == nullptr) return false;
  bool any = false;
  for (Operand* each : operands(*chosen))
    if (each->dtype == DType::kF32) each->dtype = DType::kI32, any = true;
  return any;
}
bool extent(Draft& draft) {
  Operand* const chosen = operand(draft);
  if (chosen == nullptr || chosen->shape.empty()) return false;
  int64_t& axis = draft.random.of(chosen->shape);
  const int64_t before = axis;
  axis = draft.random.coin() ? axis / 2 : axis - 1;
  return axis != before && axis >= 0;
}
bool axes_exchanged(Draft& draft) {
  Operand* const chosen = operand(draft);
  if (chosen == nullptr || chosen->shape.size() < 2) return false;
  const size_t axis = draft.random.below(chosen->shape.size() - 1);
  if (chosen->strides[axis] == chosen->strides[axis + 1]) return false;
  std::swap(chosen->strides[axis], chosen->strides[axis + 1]);
  if (draft.random.coin()) std::swap(chosen->shape[axis], chosen->shape[axis + 1]);
  return true;
}
bool inputs_exchanged(Draft& draft) {
  KernelCall* const chosen = call(draft);
  if (chosen == nullptr || chosen->inputs.size() < 2) return false;
  const size_t at = draft.random.below(chosen->inputs.size() - 1);
  std::swap(chosen->inputs[at], chosen->inputs[at + 1]);
  return true;
}
bool outputs_exchanged(Draft& draft) {
  KernelCall* const chosen = call(draft);
  if (chosen == nullptr || chosen->outputs.size() < 2) return false;
  const size_t at = draft.random.below(chosen->outputs.size() - 1);
  std::swap(chosen->outputs[at], chosen->outputs[at + 1]);
  return true;
}
// Only where an operand lies: shape and type stay.
bool place_of_another_operand(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->calls.empty()) return false;
  const auto to = operands(draft.random.of(chosen->calls)), from = operands(draft.random.of(chosen->calls));
  if (to.empty() || from.empty()) return false;
  const Operand& source = *draft.random.of(from);
  Operand& target = *draft.random.of(to);
  if (target.slot == source.slot && target.offset == source.offset) return false;
  target.slot = source.slot;
  target.offset = source.offset;
  return true;
}
bool another_operand(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->calls.empty()) return false;
  const auto to = operands(draft.random.of(chosen->calls)), from = operands(draft.random.of(chosen->calls));
  if (to.empty() || from.empty()) return false;
  const Operand source = *draft.random.of(from);
  *draft.random.of(to) = source;
  return true;
}
bool operand_left_out(Draft& draft) {
  Operand* const chosen = operand(draft);
  if (chosen == nullptr) return false;
  *chosen = Operand();
  return true;
}
bool kernel(Draft& draft) {
  KernelCall* const chosen = call(draft);
  if (chosen == nullptr) return false;
  const std::string before = chosen->kernel.text();
  std::vector<std::string> like;
  const auto inputs = static_cast<int>(chosen->inputs.size());
  for (const KernelInfo& info : kKernels)
    if (info.name != before && info.min_inputs <= inputs && inputs <= info.max_inputs &&
        info.outputs >= static_cast<int>(chosen->outputs.size()))
      like.emplace_back(info.name);
  if (like.empty()) return false;
  chosen->kernel = draft.random.of(like);
  return true;
}
bool accumulation(Draft& draft) {
  KernelCall* const chosen = call(draft);
  if (chosen == nullptr) return false;
  chosen->accumulate = !chosen->accumulate;
  return true;
}
bool accumulating_call_doubled(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr) return false;
  std::vector<size_t> found;
  for (size_t c = 0; c < chosen->calls.size(); ++c)
    if (chosen->calls[c].accumulate) found.push_back(c);
  if (found.empty()) return false;
  const size_t at = draft.random.of(found);
  const KernelCall again = chosen->calls[at];
  chosen->calls.insert(chosen->calls.begin() + static_cast<std::ptrdiff_t>(at), again);
  return true;
}
bool call_moved(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->calls.size() < 3) return false;
  const size_t from = draft.random.below(chosen->calls.size()), to = draft.random.below(chosen->calls.size());
  if (from == to) return false;
  KernelCall moved = chosen->calls[from];
  chosen->calls.erase(chosen->calls.begin() + static_cast<std::ptrdiff_t>(from));
  chosen->calls.insert(chosen->calls.begin() + static_cast<std::ptrdiff_t>(to), std::move(moved));
  return true;
}
bool attribute(Draft& draft) {
  KernelCall* const chosen = call(draft);
  if (chosen == nullptr || chosen->attrs.empty()) return false;
  AttrValue& value = draft.random.of(chosen->attrs).value;
  if (auto* integer = std::get_if<int64_t>(&value)) *integer += draft.random.coin() ? 1 : -1;
  else if (auto* real = std::get_if<double>(&value)) *real = *real * 2 + 0.125;
  else if (auto* flag = std::get_if<bool>(&value)) *flag = !*flag;
  else if (auto* list = std::get_if<std::vector<int64_t>>(&value); list != nullptr && !list->empty())
    draft.random.of(*list) += 1;
  else return false;
  return true;
}
bool role(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->slots.empty()) return false;
  Slot& slot = draft.random.of(chosen->slots);
  const SlotRole before = slot.role;
  slot.role = static_cast<SlotRole>(draft.random.below(static_cast<size_t>(SlotRole::kMoment) + 1));
  return slot.role != before;
}
bool access(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->slots.empty()) return false;
  Slot& slot = draft.random.of(chosen->slots);
  if (draft.random.coin()) slot.reads = !slot.reads;
  else slot.writes = !slot.writes;
  return slot.reads || slot.writes;
}
bool size_of_a_slot(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->slots.empty()) return false;
  Slot& slot = draft.random.of(chosen->slots);
  const int64_t before = slot.bytes;
  slot.bytes = draft.random.coin() ? slot.bytes + 64 : slot.bytes / 2;
  return slot.bytes != before;
}
bool size_of_the_workspace(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->workspace_bytes == 0) return false;
  chosen->workspace_bytes = draft.random.coin() ? chosen->workspace_bytes + 64 : chosen->workspace_bytes / 2;
  return true;
}
bool slots_exchange_names(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->slots.size() < 2) return false;
  const size_t at = draft.random.below(chosen->slots.size()), other = draft.random.below(chosen->slots.size());
  if (at == other) return false;
  std::swap(chosen->slots[at].name, chosen->slots[other].name);
  return true;
}
// What programs and slots say that they are of.
ChunkPass* chunk_pass(Draft& draft) {
  Program* const chosen = program(draft);
  return chosen == nullptr || !chosen->of ? nullptr : &*chosen->of;
}
bool another_chunk(Draft& draft) {
  ChunkPass* const chosen = chunk_pass(draft);
  if (chosen == nullptr) return false;
  const int32_t before = chosen->chunk;
  chosen->chunk = static_cast<int32_t>(draft.random.below(draft.bundle.manifest.chunks.size()));
  return chosen->chunk != before;
}
bool another_pass(Draft& draft) {
  ChunkPass* const chosen = chunk_pass(draft);
  if (chosen == nullptr) return false;
  const Pass before = chosen->pass;
  chosen->pass = static_cast<Pass>(draft.random.below(static_cast<size_t>(Pass::kCountFinish) + 1));
  return chosen->pass != before;
}
bool other_samples(Draft& draft) {
  ChunkPass* const chosen = chunk_pass(draft);
  if (chosen == nullptr) return false;
  chosen->samples = draft.random.coin() || chosen->samples == 1 ? chosen->samples * 2 : chosen->samples - 1;
  return true;
}
bool of_no_chunk(Draft& draft) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || !chosen->of) return false;
  chosen->of.reset();
  return true;
}
std::vector<Slot*> slots_of_meaning(Draft& draft) {
  std::vector<Slot*> found;
  if (Program* const chosen = program(draft); chosen != nullptr)
    for (Slot& slot : chosen->slots)
      if (!slot.of.empty() || slot.holds != StepNumber::kNone) found.push_back(&slot);
  return found;
}
bool slots_exchange_what_they_hold(Draft& draft) {
  const auto found = slots_of_meaning(draft);
  if (found.size() < 2) return false;
  Slot &one = *draft.random.of(found), &other = *draft.random.of(found);
  if (&one == &other || (one.of == other.of && one.holds == other.holds && one.term == other.term)) return false;
  std::swap(one.of, other.of);
  std::swap(one.holds, other.holds);
  std::swap(one.term, other.term);
  return true;
}
bool slot_holds_nothing(Draft& draft) {
  const auto found = slots_of_meaning(draft);
  if (found.empty()) return false;
  Slot& slot = *draft.random.of(found);
  slot.of.clear();
  slot.holds = StepNumber::kNone;
  slot.term = 0;
  return true;
}
bool slot_holds_another_number(Draft& draft) {
  const auto found = slots_of_meaning(draft);
  if (found.empty()) return false;
  Slot& slot = *draft.random.of(found);
  if (slot.holds == StepNumber::kNone) return false;
  const auto numbers = static_cast<size_t>(StepNumber::kLossScale);
  const auto other = static_cast<StepNumber>(1 + draft.random.below(numbers));
  if (other == slot.holds) slot.term = 1 - std::min(slot.term, 1);
  else slot.holds = other;
  return true;
}
// What a place is said to have of the value of a slot; of the slots of that name in all programs, or of one.
bool another_spread(Draft& draft, bool everywhere) {
  Program* const chosen = program(draft);
  if (chosen == nullptr || chosen->slots.empty() || draft.bundle.manifest.cuts.empty()) return false;
  std::vector<Slot*> spread;
  for (Slot& slot : chosen->slots)
    if (slot.cut >= 0) spread.push_back(&slot);
  Slot& slot = spread.empty() || draft.random.below(4) == 0 ? draft.random.of(chosen->slots) : *draft.random.of(spread);
  static constexpr Spread kSpreads[] = {Spread::kSame, Spread::kPart, Spread::kShare};
  const Spread other = kSpreads[draft.random.below(std::size(kSpreads))];
  const int32_t cut = other == Spread::kSame ? -1 : std::max(slot.cut, 0);
  if (slot.spread == other && slot.cut == cut) return false;
  const std::string name = slot.name;
  for (Program& each : draft.bundle.programs)
    for (Slot& one : each.slots)
      if (&one == &slot || (everywhere && one.name == name)) {
        one.spread = other;
        one.cut = cut;
      }
  return true;
}
bool another_spread_of_a_slot(Draft& draft) { return another_spread(draft, false); }
bool another_spread_of_a_value(Draft& draft) { return another_spread(draft, true); }
bool calls_of_two_programs_exchanged(Draft& draft) {
  Program *const one = program(draft), *const other = program(draft);
  if (one == nullptr || one == other || one->slots.size() != other->slots.size()) return false;
  std::swap(one->calls, other->calls);
  std::swap(one->workspace_bytes, other->workspace_bytes);
  return true;
}

}  // namespace

std::vector<Mutation> of_programs() {
  return {
      {"operand: another offset", offset},
      {"operand: another element type", element_type},
      {"call: f32 said as i32", types_of_a_call},
      {"operand: another extent", extent},
      {"operand: axes exchanged", axes_exchanged},
      {"operand: the place of another", place_of_another_operand},
      {"operand: another one", another_operand},
      {"operand left out", operand_left_out},
      {"call: inputs exchanged", inputs_exchanged},
      {"call: outputs exchanged", outputs_exchanged},
      {"call: another kernel", kernel},
      {"call: adds, or no longer", accumulation},
      {"call that adds doubled", accumulating_call_doubled},
      {"call moved", call_moved},
      {"call: another attribute", attribute},
      {"slot: another role", role},
      {"slot: another access", access},
      {"slot: another size", size_of_a_slot},
      {"workspace: another size", size_of_the_workspace},
      {"slots exchange names", slots_exchange_names},
      {"calls of two programs exchanged", calls_of_two_programs_exchanged},
      {"program: of another chunk", another_chunk},
      {"program: another pass", another_pass},
      {"program: other samples", other_samples},
      {"program: of no chunk", of_no_chunk},
      {"slots exchange what they hold", slots_exchange_what_they_hold},
      {"slot: holds nothing", slot_holds_nothing},
      {"slot: holds another number", slot_holds_another_number},
      {"slot: another spread", another_spread_of_a_slot},
      {"value: another spread", another_spread_of_a_value},
  };
}

}  // namespace piper::mutate
