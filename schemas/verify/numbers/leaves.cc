#include "schemas/verify/numbers/leaves.h"

#include <algorithm>

#include "schemas/plan/dtype.h"
#include "schemas/plan/names.h"

namespace piper::verify {

using namespace plan;

namespace {

int64_t sample_bytes(const InputDecl& input) {
  return element_count(input.sample_shape).value_or(0) * dtype_bytes(input.dtype);
}

int32_t scalar(StepNumber number, int64_t bytes, NumberTable& table) {
  return table.leaf("scalar " + std::string(number_name(number)), Over::kNothing, bytes);
}

}  // namespace

int32_t sample_offset(NumberTable& table) { return scalar(StepNumber::kSampleOffset, dtype_bytes(DType::kI64), table); }
int32_t place_of_rank(NumberTable& table) { return scalar(StepNumber::kPlace, dtype_bytes(DType::kI64), table); }

int32_t known_place_of_rank(const NumberTable& table) {
  return table.find_leaf("scalar " + std::string(number_name(StepNumber::kPlace)));
}

Leaves::Leaves(const Bundle& bundle) : manifest_(bundle.manifest) {
  for (const RankPlan& rank : bundle.ranks)
    for (const Placement& placement : rank.placements)
      if (placement.kind == PlacementKind::kWorking) working_.emplace(placement.name, placement.dtype);
}

const InputDecl* Leaves::declared(const Slot& slot) const {
  const auto found = std::find_if(manifest_.inputs.begin(), manifest_.inputs.end(),
                                  [&](const InputDecl& input) { return input.name == slot.of; });
  return found == manifest_.inputs.end() ? nullptr : &*found;
}

int64_t Leaves::samples_of(const Program& program) const {
  for (const Slot& slot : program.slots) {
    const InputDecl* const input = slot.role == SlotRole::kInput ? declared(slot) : nullptr;
    const int64_t bytes = input == nullptr || !input->batched ? 0 : sample_bytes(*input);
    if (bytes > 0 && slot.bytes >= bytes) return slot.bytes / bytes;
  }
  return Reference::kSamples;
}

int32_t Leaves::input(const Slot& slot, int64_t samples, NumberTable& table) const {
  const InputDecl* const input = declared(slot);
  if (input == nullptr) return -1;
  const int64_t bytes = sample_bytes(*input);
  if (slot.bytes != bytes * (input->batched ? samples : 1))
    return table.unknown("an input for another number of samples than its program's");
  return table.leaf("input " + slot.of, input->batched ? Over::kEach : Over::kNothing, bytes);
}

const TensorInfo* Leaves::tensor(const Slot& slot) const {
  const auto found = std::find_if(manifest_.tensors.begin(), manifest_.tensors.end(),
                                  [&](const TensorInfo& info) { return info.name == slot.of; });
  return found == manifest_.tensors.end() ? nullptr : &*found;
}

// Whole, in the type that is trained or that of the copies that programs read.
int32_t Leaves::parameter(const Slot& slot, NumberTable& table) const {
  const TensorInfo* const info = tensor(slot);
  if (info == nullptr) return -1;
  const auto working = working_.find(slot.of);
  const DType dtype = working == working_.end() ? info->dtype : working->second;
  const int64_t bytes = element_count(info->shape).value_or(0) * dtype_bytes(dtype);
  const bool in_parts = !info->shape.empty() && bytes > 0 && slot.bytes > 0 && bytes % slot.bytes == 0;
  const bool right = info->cut ? is_part_of_cut(slot, bytes) : in_parts && info->shape[0] % (bytes / slot.bytes) == 0;
  if (slot.bytes != bytes && !right) return table.unknown("a part of a parameter");
  return table.leaf("parameter " + slot.of, Over::kNothing, bytes);
}

bool Leaves::is_part_of_cut(const Slot& slot, int64_t bytes) const {
  const Spread spread = part_of_cut(slot);
  const int64_t all = spread.of_all();
  if (all < 1 || bytes < 1 || slot.bytes < 1 || bytes % all != 0) return false;
  const int64_t of_place = bytes / all * spread.part, ranks = of_place / slot.bytes;
  const TensorInfo& info = *tensor(slot);
  return ranks > 0 && ranks * slot.bytes == of_place &&
         (ranks == 1 || (info.cut->axis > 0 && info.shape[0] % ranks == 0));
}

Spread Leaves::part_of_cut(const Slot& slot) const {
  Spread spread;
  const TensorInfo* const info = slot.of.empty() ? nullptr : tensor(slot);
  if (info == nullptr || !info->cut) return spread;
  spread.cut = info->cut->cut;
  spread.devices = manifest_.cuts[static_cast<size_t>(spread.cut)].places();
  int64_t inside = 1;
  const auto axis = static_cast<size_t>(info->cut->axis);
  for (size_t i = axis + 1; i < info->shape.size(); ++i) inside *= info->shape[i];
  const int64_t parts = spread.devices * info->cut->segments, extent = info->shape[axis];
  const int64_t each = (extent + parts - 1) / parts;
  spread.part = each * inside;
  for (const int64_t segment : info->cut->extents) spread.pieces.push_back(segment / spread.devices * inside);
  spread.surplus = (each * parts - extent) * inside;
  spread.zeros = spread.surplus > 0;
  return spread;
}

// Over whose places a program works: that of the tensors and values of which it has parts or shares.
Spread Leaves::cut_of_program(const Program& program) const {
  Spread spread;
  for (const Slot& slot : program.slots) {
    const int32_t cut = slot.cut >= 0 ? slot.cut : part_of_cut(slot).cut;
    if (cut < 0 || (spread.cut >= 0 && cut != spread.cut)) continue;
    spread.cut = cut;
    spread.devices = manifest_.cuts[static_cast<size_t>(cut)].places();
  }
  return spread;
}

HeldValue Leaves::held(const Program& program, const Slot& slot, int32_t leaf, const NumberTable& table) const {
  HeldValue value{slot.bytes, 0, leaf};
  if (slot.role == SlotRole::kScalar && slot.holds == StepNumber::kPlace) value.spread = cut_of_program(program);
  const int64_t bytes = table[leaf].bytes;
  if (slot.role != SlotRole::kParameter || bytes == slot.bytes || slot.bytes == 0 || table[leaf].over != Over::kNothing)
    return value;
  const Spread places = part_of_cut(slot);
  const int64_t of_place = places.part > 0 ? bytes / places.of_all() * places.part : bytes;
  Spread experts;
  experts.devices = of_place / slot.bytes;
  if (experts.devices > 1) experts.part = element_count(tensor(slot)->shape).value_or(0) / experts.devices;
  hold(value, experts, places);
  return value;
}

bool Leaves::is_of_one_expert(const Slot& slot) const {
  const TensorInfo* const info = slot.role == SlotRole::kParameter ? tensor(slot) : nullptr;
  if (info == nullptr || info->shape.empty() || info->shape[0] < 2 || (info->cut && info->cut->axis == 0)) return false;
  const auto working = working_.find(slot.of);
  const DType dtype = working == working_.end() ? info->dtype : working->second;
  const Spread places = part_of_cut(slot);
  const int64_t bytes = element_count(info->shape).value_or(0) * dtype_bytes(dtype);
  return slot.bytes * info->shape[0] == (places.part > 0 ? bytes / places.of_all() * places.part : bytes);
}

int32_t Leaves::of_slot(const Slot& slot, int64_t samples, const std::string& sha256, NumberTable& table) const {
  switch (slot.role) {
    case SlotRole::kInput: return input(slot, samples, table);
    case SlotRole::kParameter: return parameter(slot, table);
    case SlotRole::kConstant:
      if (sha256.empty()) return table.unknown("a constant without bytes");
      return table.constant("constant " + sha256, slot.bytes);
    case SlotRole::kState: return table.leaf("state " + slot.of, Over::kNothing, slot.bytes);
    case SlotRole::kScalar:
      if (slot.holds != StepNumber::kSeedStep && slot.holds != StepNumber::kSampleOffset &&
          slot.holds != StepNumber::kPlace && slot.holds != StepNumber::kLossScale)
        return -1;
      return scalar(slot.holds, slot.bytes, table);
    case SlotRole::kOutput:
    case SlotRole::kSaved:
    case SlotRole::kGradient:
    case SlotRole::kMoment: return -1;
  }
  return -1;
}

}  // namespace piper::verify
