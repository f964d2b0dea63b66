#include "schemas/verify/held_name.h"

#include "schemas/plan/names.h"

namespace piper::verify {

using namespace plan;

std::string held_name(StepNumber number, int32_t term) {
  if (number != StepNumber::kLoss && number != StepNumber::kCount) return std::string(number_name(number));
  return "loss" + (term > 0 ? " " + std::to_string(term) : "") + (number == StepNumber::kCount ? " count" : "");
}

std::string held_name(const Slot& slot) {
  if (slot.holds != StepNumber::kNone) return held_name(slot.holds, slot.term);
  if (slot.of.empty()) return slot.name;
  return slot.role == SlotRole::kGradient ? "grad " + slot.of : slot.of;
}

}  // namespace piper::verify
