// Damages that rules 5 to 7 of the proof must find: accesses to bytes are ordered, what is read was written, programs
// touch what they declare.
#include "tests/unit/plan_damages.h"

#include "tests/unit/plan_damage_edits.h"

namespace piper::damages {
namespace {

using namespace plan;

bool message_shorter_at_both_ends(Bundle& b) {
  for (const At at : find<Send>(b)) {
    auto& send = std::get<Send>(get(b, at).action);
    const auto& from = b.ranks[at.rank];
    const int32_t id = from.channels[static_cast<size_t>(send.channel)].id,
                  to = from.channels[static_cast<size_t>(send.channel)].peer;
    const auto ends = find<Recv>(b, [&](const RankPlan& plan, const Recv& recv) {
      const auto& channel = plan.channels[static_cast<size_t>(recv.channel)];
      return plan.rank == to && channel.peer == from.rank && channel.id == id;
    });
    // The first message of the channel, if it is long enough.
    auto& recv = std::get<Recv>(get(b, ends.at(0)).action);
    if (send.count < 32 || recv.count != send.count) continue;
    send.count /= 2;
    recv.count /= 2;
    return true;
  }
  return false;
}
bool wait_left_out(Bundle& b) {
  // Before a message: it would leave before it is made.
  for (const At at : find<Send>(b))
    for (size_t i = at.index; i-- > 0;) {
      const auto& earlier = b.ranks[at.rank].instructions[i];
      if (earlier.stream != get(b, at).stream) continue;
      if (!std::holds_alternative<Wait>(earlier.action)) break;
      erase(b, {at.rank, i});
      return true;
    }
  return false;
}
bool workspace_over_an_argument(Bundle& b) {
  for (const At at : find<Run>(b)) {
    auto& run = std::get<Run>(get(b, at).action);
    const auto& program = program_of(b, run);
    if (program.workspace_bytes == 0) continue;
    auto& plan = b.ranks[at.rank];
    for (size_t s = 0; s < program.slots.size(); ++s) {
      const auto& where = plan.arguments[static_cast<size_t>(run.arguments)].arguments[s];
      if (class_of(plan, where) != BufferClass::kArena || program.slots[s].bytes == 0) continue;
      plan.buffers.edit()[static_cast<size_t>(run.workspace.buffer)].offset =
          plan.buffers[static_cast<size_t>(where.buffer)].offset;
      return true;
    }
  }
  return false;
}
bool saved_values_of_two_microbatches_share_bytes(Bundle& b) {
  for (auto& plan : b.ranks) {
    std::vector<size_t> saved;
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      if (plan.buffers[i].name.find(" saved m") != std::string::npos) saved.push_back(i);
    // Only where both live at the same time: the second is made before the first is read.
    const auto users = [&](size_t buffer, bool writes) {
      std::vector<size_t> found;
      for (size_t i = 0; i < plan.instructions.size(); ++i)
        if (const auto* run = std::get_if<Run>(&plan.instructions[i].action))
          for (size_t s = 0; s < program_of(b, *run).slots.size(); ++s) {
            const auto& slot = program_of(b, *run).slots[s];
            if (slot.role == SlotRole::kSaved && slot.writes == writes &&
                plan.arguments[static_cast<size_t>(run->arguments)].arguments[s].buffer == static_cast<int32_t>(buffer))
              found.push_back(i);
          }
      return found;
    };
    for (const size_t x : saved)
      for (const size_t y : saved)
        if (x != y && plan.buffers[x].bytes == plan.buffers[y].bytes && users(x, true) < users(y, true) &&
            users(y, true) < users(x, false)) {
          plan.buffers.edit()[y].offset = plan.buffers[x].offset;
          return true;
        }
  }
  return false;
}
bool forward_left_out(Bundle& b) { return erase_all(b, first_only<Run>(forwards(b))); }
bool program_writes_what_it_does_not_declare(Bundle& b) {
  for (auto& program : b.programs)
    if (adds_gradients(program))
      for (auto& slot : program.slots)
        if (slot.role == SlotRole::kGradient && slot.writes) {
          slot.writes = false;
          return true;
        }
  return false;
}
bool gather_left_out(Bundle& b) {
  const auto found = find<AllGather>(b);
  if (found.empty()) return false;
  const auto& plan = b.ranks[found[0].rank];
  const auto& first = std::get<AllGather>(plan.instructions[found[0].index].action);
  const std::string communicator = plan.communicators[static_cast<size_t>(first.communicator)].name,
                    data = name_of(plan, first.data);
  return erase_all(b, find<AllGather>(b, [&](const RankPlan& p, const AllGather& a) {
                     return p.communicators[static_cast<size_t>(a.communicator)].name == communicator &&
                            name_of(p, a.data) == data;
                   }));
}
bool exchange_left_out(Bundle& b) { return erase_all(b, first_exchange(b)); }

}  // namespace

std::vector<Damage> of_bytes() {
  return {
      PIPER_DAMAGE(message_shorter_at_both_ends, "P0634"),
      PIPER_DAMAGE(wait_left_out, "P0633"),
      PIPER_DAMAGE(workspace_over_an_argument, "P0633", "P0634", "P0635"),
      PIPER_DAMAGE(saved_values_of_two_microbatches_share_bytes, "P0634"),
      PIPER_DAMAGE(exchange_left_out, "P0634"),
      PIPER_DAMAGE(forward_left_out, "P0634"),
      PIPER_DAMAGE(program_writes_what_it_does_not_declare, "P0635"),
      PIPER_DAMAGE(gather_left_out, "P0634", "P0637", "P0638"),
  };
}

}  // namespace piper::damages
