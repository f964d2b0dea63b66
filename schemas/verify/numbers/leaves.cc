#include "schemas/verify/numbers/leaves.h"

#include <algorithm>

#include "schemas/plan/names.h"

namespace piper::verify {

using namespace plan;

Leaves::Leaves(const Bundle& bundle) : manifest_(bundle.manifest) {
  for (const RankPlan& rank : bundle.ranks)
    for (const Placement& placement : rank.placements)
      if (placement.kind == PlacementKind::kWorking) working_.emplace(placement.name, placement.dtype);
}

int32_t Leaves::input(const Slot& slot, int64_t samples, NumberTable& table) const {
  const auto declared = std::find_if(manifest_.inputs.begin(), manifest_.inputs.end(),
                                     [&](const InputDecl& input) { return input.name == slot.name; });
  if (declared == manifest_.inputs.end()) return -1;
  const int64_t bytes = element_count(declared->sample_shape).value_or(0) * dtype_bytes(declared->dtype);
  if (slot.bytes != bytes * (declared->batched ? samples : 1))
    return table.unknown("an input for another number of samples than its program's");
  return table.leaf("input " + slot.name, declared->batched ? Over::kEach : Over::kNothing, bytes);
}

// Whole, in the type that is trained or that of the copies that programs read.
int32_t Leaves::parameter(const Slot& slot, NumberTable& table) const {
  const auto tensor = std::find_if(manifest_.tensors.begin(), manifest_.tensors.end(),
                                   [&](const TensorInfo& info) { return info.name == slot.name; });
  if (tensor == manifest_.tensors.end()) return -1;
  const auto working = working_.find(slot.name);
  const DType dtype = working == working_.end() ? tensor->dtype : working->second;
  if (slot.bytes != element_count(tensor->shape).value_or(0) * dtype_bytes(dtype))
    return table.unknown("a part of a parameter");
  return table.leaf("parameter " + slot.name, Over::kNothing, slot.bytes);
}

int32_t Leaves::of_slot(const Slot& slot, int64_t samples, const std::string& sha256, NumberTable& table) const {
  switch (slot.role) {
    case SlotRole::kInput: return input(slot, samples, table);
    case SlotRole::kParameter: return parameter(slot, table);
    case SlotRole::kConstant:
      if (sha256.empty()) return table.unknown("a constant without bytes");
      return table.constant("constant " + sha256, slot.bytes);
    case SlotRole::kState: return table.unknown("running statistics");
    case SlotRole::kScalar:
      if (slot.name != "seed_step" && slot.name != "sample_offset" && slot.name != "loss_scale") return -1;
      return table.leaf("scalar " + slot.name, Over::kNothing, slot.bytes);
    case SlotRole::kOutput:
    case SlotRole::kSaved:
    case SlotRole::kGradient:
    case SlotRole::kMoment: return -1;
  }
  return -1;
}

}  // namespace piper::verify
