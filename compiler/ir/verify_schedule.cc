// Checks the rules S of verify_module.h.
#include <algorithm>

#include "compiler/ir/verify_module.h"
#include "compiler/ir/verify_parts.h"

namespace piper::ir {
namespace {

template <class T>
bool ascends(const std::vector<T>& list) {
  return std::adjacent_find(list.begin(), list.end(), [](const T& a, const T& b) { return !(a < b); }) == list.end();
}

Status verify_member(const Module& module, const OrderMember& member, size_t num_chunks) {
  if (!ascends(member.chunks) || (!member.chunks.empty() && member.chunks.back().index >= num_chunks))
    return broken(kRuleMembers, "its chunks are not those of the model, ascending");
  const std::vector<int32_t>& microbatches = member.microbatches;
  if (!ascends(microbatches) ||
      (!microbatches.empty() && (microbatches.front() < 0 || microbatches.back() >= module.step.num_microbatches)))
    return broken(kRuleMembers, "its microbatches are not those of the step, ascending");
  if (member.phases.empty() || !ascends(member.phases) || static_cast<size_t>(member.phases.back()) >= kNumPhases)
    return broken(kRulePhasesOfMember, "its phases do not ascend");
  return {};
}

}  // namespace

Status verify_schedule(const Module& module) {
  // Before the model is bound, chunks are what the distribution has rows for.
  const size_t num_chunks = module.variants.empty() ? module.distribution.chunks.size() : module.chunks().size();
  for (const Order& order : module.schedule.orders) {
    if (order.slots.empty()) return broken(kRuleSlots, "an order has no slot");
    for (const OrderSlot& slot : order.slots) {
      if (slot.members.empty()) return broken(kRuleSlots, "a slot of an order has no member");
      for (const OrderMember& member : slot.members)
        PIPER_RETURN_IF_ERROR(verify_member(module, member, num_chunks).with_context("the filter " + member.text));
    }
  }
  return {};
}

}  // namespace piper::ir
