// Where the contents of a rank's buffers are kept while a step is followed: buffers of the arena that nothing needs at
// one time share a slot, so that a rank takes as much memory as it has buffers in use together, not in all. Each
// microbatch has buffers of its own. Ranks that do the same work share the slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <span>
#include <vector>

#include "schemas/plan/actions.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

struct BufferSlots {
  std::vector<int32_t> slot_of;  // [buffer]
  int32_t count = 0;
  // Buffers with a slot of their own, ascending: what outlasts a step, or is read at its end.
  std::vector<int32_t> lasting;
  // [buffer] The last instruction that names it; kAlways of those that last.
  static constexpr size_t kAlways = ~size_t{0};
  std::vector<size_t> last_named;
};
// For ranks that do the same work, of which `plan` is the first; what each of them reports lasts.
// Slots are for the instructions' arguments and operands, workspaces aside, in issue order.
BufferSlots buffer_slots(const plan::RankPlan& plan, std::span<const plan::RankPlan* const> alike,
                         const plan::Manifest& manifest);

// Calls visit(buffer) for all that an instruction names, also where it takes no bytes of it.
template <class Visit>
void each_buffer(const plan::RankPlan& plan, const plan::Action& action, const Visit& visit) {
  const auto operands = [&](const auto&... ranges) {
    for (const plan::BufferRange* range : {&ranges...})
      if (range->buffer >= 0) visit(range->buffer);
  };
  std::visit(
      plan::Cases{[&](const plan::IsLaunch auto& launch) {
                    for (const plan::BufferRange& range :
                         plan.arguments[static_cast<size_t>(launch.arguments)].arguments)
                      operands(range);
                  },
                  [&](const plan::IsOneOf<plan::Send, plan::Recv, plan::AllReduce> auto& a) { operands(a.data); },
                  [&](const plan::ReduceScatter& a) { operands(a.data, a.out); },
                  [&](const plan::AllGather& a) { operands(a.part, a.data); },
                  [&](const plan::AllToAll& a) { operands(a.send, a.recv, a.send_counts, a.recv_counts); },
                  [](const plan::IsEvent auto&) {}},
      action);
}

}  // namespace piper::verify
