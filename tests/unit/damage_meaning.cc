// Damages that rule 9 of the proof must find: runs read what their slots name.
#include "tests/unit/plan_damages.h"

#include <algorithm>

#include "tests/unit/plan_damage_edits.h"

namespace piper::damages {
namespace {

using namespace plan;

bool run_reads_another_microbatch(Bundle& b) {
  return change_argument(
      b, SlotRole::kInput, [](RankPlan& plan, const Program& program, size_t, BufferRange& where, const Run&) {
        if (class_of(plan, where) != BufferClass::kInput || (program.of && program.of->pass == Pass::kCount))
          return false;
        const auto here = std::find_if(plan.inputs.begin(), plan.inputs.end(),
                                       [&](const InputSlice& slice) { return slice.where.buffer == where.buffer; });
        for (const auto& slice : plan.inputs)
          if (here->count > 0 && slice.input == here->input && slice.count == here->count &&
              slice.first != here->first) {
            where = slice.where;
            return true;
          }
        return false;
      });
}
bool run_reads_a_constant_for_an_input(Bundle& b) {
  return change_argument(
      b, SlotRole::kInput, [](RankPlan& plan, const Program& program, size_t slot, BufferRange& where, const Run&) {
        if (class_of(plan, where) != BufferClass::kInput) return false;
        for (size_t i = 0; i < plan.buffers.size(); ++i)
          if (plan.buffers[i].cls == BufferClass::kConstant && plan.buffers[i].bytes >= program.slots[slot].bytes) {
            where = {static_cast<int32_t>(i), 0};
            return true;
          }
        return false;
      });
}
bool run_reads_another_input(Bundle& b) {
  return change_argument(
      b, SlotRole::kInput, [](RankPlan& plan, const Program&, size_t, BufferRange& where, const Run&) {
        if (class_of(plan, where) != BufferClass::kInput) return false;
        for (const auto& slice : plan.inputs)
          if (slice.where.buffer != where.buffer && name_of(plan, slice.where)[0] != name_of(plan, where)[0] &&
              plan.buffers[static_cast<size_t>(slice.where.buffer)].bytes ==
                  plan.buffers[static_cast<size_t>(where.buffer)].bytes) {
            where = slice.where;
            return true;
          }
        return false;
      });
}
bool input_holds_other_samples(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& slice : plan.inputs)
      if (slice.count > 0 && slice.count < b.manifest.batch) {
        slice.first = slice.first == 0 ? slice.count : 0;
        return true;
      }
  return false;
}
// The smallest one: a few bytes at a buffer's end may be rounding, a whole value may not.
bool input_is_not_fed(Bundle& b) {
  RankPlan& plan = b.ranks.back();
  const auto bytes = [&](const InputSlice& slice) {
    return plan.buffers[static_cast<size_t>(slice.where.buffer)].bytes;
  };
  const auto smallest = std::min_element(plan.inputs.begin(), plan.inputs.end(),
                                         [&](const auto& one, const auto& other) { return bytes(one) < bytes(other); });
  if (smallest == plan.inputs.end()) return false;
  plan.inputs.erase(smallest);
  return true;
}
bool backward_reads_values_saved_for_another_microbatch(Bundle& b) {
  return change_argument(b, SlotRole::kSaved,
                         [](RankPlan& plan, const Program& program, size_t s, BufferRange& where, const Run&) {
                           if (!program.slots[s].reads) return false;
                           for (size_t i = 0; i < plan.buffers.size(); ++i)
                             if (static_cast<int32_t>(i) != where.buffer &&
                                 plan.buffers[i].bytes == plan.buffers[static_cast<size_t>(where.buffer)].bytes &&
                                 plan.buffers[i].name.substr(0, plan.buffers[i].name.rfind(' ')) ==
                                     name_of(plan, where).substr(0, name_of(plan, where).rfind(' '))) {
                               where.buffer = static_cast<int32_t>(i);
                               return true;
                             }
                           return false;
                         });
}
bool run_reads_another_parameter(Bundle& b) {
  return change_argument(b, SlotRole::kParameter,
                         [](RankPlan& plan, const Program& program, size_t s, BufferRange& where, const Run& run) {
                           const auto& list = plan.arguments[static_cast<size_t>(run.arguments)].arguments;
                           for (size_t other = s + 1; other < program.slots.size(); ++other)
                             if (program.slots[other].role == SlotRole::kParameter &&
                                 program.slots[other].bytes == program.slots[s].bytes) {
                               where = list[other];
                               return true;
                             }
                           return false;
                         });
}
bool run_reads_parameters_after_their_update(Bundle& b) {
  // A forward of the first chunk once more at the end: it reads model inputs and parameters only.
  for (const At at : forwards(b)) {
    const auto& run = std::get<Run>(get(b, at).action);
    const auto& plan = b.ranks[at.rank];
    const auto& program = program_of(b, run);
    bool persistent = true;
    for (size_t s = 0; s < program.slots.size(); ++s)
      persistent = persistent && (!program.slots[s].reads ||
                                  class_of(plan, plan.arguments[static_cast<size_t>(run.arguments)].arguments[s]) !=
                                      BufferClass::kArena);
    const auto updates = find<Update>(b, [&](const RankPlan& p, const Update&) { return p.rank == plan.rank; });
    if (!persistent || updates.empty()) continue;
    const Instruction again = get(b, at);
    insert(b, {at.rank, plan.instructions.size()}, again);
    return true;
  }
  return false;
}
bool dropout_of_another_sample(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& scalar : plan.scalars)
      if (starts(plan.buffers[static_cast<size_t>(scalar.buffer)].name, "sample_offset")) {
        scalar.values[0] += 1;
        return true;
      }
  return false;
}
bool exchanged_rows_of_another_microbatch(Bundle& b) {
  // The last forward of a rank reads what an earlier one was given.
  const auto exchanges = find<AllToAll>(b);
  for (const At a : exchanges)
    for (const At other : exchanges) {
      auto &x = std::get<AllToAll>(get(b, a).action), &y = std::get<AllToAll>(get(b, other).action);
      const auto& plan = b.ranks[a.rank];
      const auto value = [](const std::string& name) { return name.substr(0, name.rfind(' ')); };
      if (a.rank != other.rank || a.index >= other.index ||
          value(name_of(plan, x.send)) != value(name_of(plan, y.send)) || x.send.buffer == y.send.buffer)
        continue;
      y.send = x.send;
      return true;
    }
  return false;
}

// Rows go to ranks that have other experts, and come back from there.
bool exchanging_members_in_another_order(Bundle& b) {
  bool found = false;
  for (RankPlan& plan : b.ranks)
    for (size_t c = 0; c < plan.communicators.size(); ++c) {
      const bool exchanges = std::any_of(plan.instructions.begin(), plan.instructions.end(), [&](const auto& i) {
        const auto* exchange = std::get_if<AllToAll>(&i.action);
        return exchange != nullptr && exchange->communicator == static_cast<int32_t>(c);
      });
      if (!exchanges) continue;
      std::reverse(plan.communicators[c].ranks.begin(), plan.communicators[c].ranks.end());
      found = true;
    }
  return found;
}

}  // namespace

std::vector<Damage> of_meaning() {
  return {
      // P0636: where the places' shares of different samples are added up.
      PIPER_DAMAGE(run_reads_another_microbatch, "P0637", "P0636"),
      PIPER_DAMAGE(run_reads_another_input, "P0637"),
      PIPER_DAMAGE(run_reads_a_constant_for_an_input, "P0637"),
      PIPER_DAMAGE(input_holds_other_samples, "P0637", "P0636"),
      PIPER_DAMAGE(input_is_not_fed, "P0637"),
      // P0635: where the other microbatch's memory serves another slot of the run by then.
      PIPER_DAMAGE(backward_reads_values_saved_for_another_microbatch, "P0637", "P0634", "P0635"),
      PIPER_DAMAGE(run_reads_another_parameter, "P0637"),
      PIPER_DAMAGE(run_reads_parameters_after_their_update, "P0637", "P0633"),
      PIPER_DAMAGE(dropout_of_another_sample, "P0637"),
      PIPER_DAMAGE(exchanged_rows_of_another_microbatch, "P0637", "P0634"),
      PIPER_DAMAGE(exchanging_members_in_another_order, "P0637"),
  };
}

}  // namespace piper::damages
