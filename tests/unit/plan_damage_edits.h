// Finding and changing instructions of a bundle, for the files damage_*.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "schemas/plan/kernels.h"
#include "schemas/plan/plan.h"

namespace piper::damages {

using plan::AllReduce;
using plan::BufferClass;
using plan::BufferRange;
using plan::Bundle;
using plan::Instruction;
using plan::Program;
using plan::RankPlan;
using plan::Run;
using plan::Slot;
using plan::SlotRole;

struct At {
  size_t rank = 0, index = 0;
};

inline Instruction& get(Bundle& bundle, At at) { return bundle.ranks[at.rank].instructions.edit()[at.index]; }
inline void erase(Bundle& bundle, At at) {
  auto& list = bundle.ranks[at.rank].instructions.edit();
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at.index));
}
inline void insert(Bundle& bundle, At at, const Instruction& instruction) {
  auto& list = bundle.ranks[at.rank].instructions.edit();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at.index), instruction);
}
// Takes the instruction away and puts it before `before`, which is earlier.
inline void move_ahead(Bundle& bundle, At from, size_t before) {
  const Instruction moved = get(bundle, from);
  erase(bundle, from);
  insert(bundle, {from.rank, before}, moved);
}

// All instructions of a kind for which `wanted` holds, rank by rank.
template <class A>
std::vector<At> find(
    const Bundle& bundle,
    const std::function<bool(const RankPlan&, const A&)>& wanted = [](const RankPlan&, const A&) { return true; }) {
  std::vector<At> found;
  for (size_t r = 0; r < bundle.ranks.size(); ++r)
    for (size_t i = 0; i < bundle.ranks[r].instructions.size(); ++i)
      if (const auto* a = std::get_if<A>(&bundle.ranks[r].instructions[i].action); a && wanted(bundle.ranks[r], *a))
        found.push_back({r, i});
  return found;
}
template <class A>
std::vector<At> first_only(std::vector<At> found) {
  if (found.size() > 1) found.resize(1);
  return found;
}
// Erases all, from the back.
inline bool erase_all(Bundle& bundle, std::vector<At> found) {
  for (size_t k = found.size(); k-- > 0;) erase(bundle, found[k]);
  return !found.empty();
}

// For damages of sums: slots declare no more reads than calls make, or rule 7 would be the one to refuse.
inline void undeclare_unread(Program& program) {
  for (size_t s = 0; s < program.slots.size(); ++s) {
    const auto here = [&](const plan::Operand& operand) { return operand.slot == static_cast<int32_t>(s); };
    const auto reads = [&](const plan::KernelCall& call) {
      return std::any_of(call.inputs.begin(), call.inputs.end(), here) ||
             ((call.accumulate || plan::find_kernel(call.kernel)->reads_outputs) &&
              std::any_of(call.outputs.begin(), call.outputs.end(), here));
    };
    if (std::none_of(program.calls.begin(), program.calls.end(), reads)) program.slots[s].reads = false;
  }
}

inline const Program& program_of(const Bundle& bundle, const Run& run) {
  return bundle.programs[static_cast<size_t>(run.program)];
}
inline bool starts(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }
inline const std::string& name_of(const RankPlan& plan, const BufferRange& where) {
  return plan.buffers[static_cast<size_t>(where.buffer)].name;
}
inline BufferClass class_of(const RankPlan& plan, const BufferRange& where) {
  return plan.buffers[static_cast<size_t>(where.buffer)].cls;
}

inline bool adds_gradients(const Program& program) {
  return std::any_of(program.slots.begin(), program.slots.end(), [](const Slot& slot) {
    return slot.role == SlotRole::kGradient && !slot.of.empty() && slot.writes;
  });
}
inline bool makes_values(const Program& program) {
  return std::any_of(program.slots.begin(), program.slots.end(), [](const Slot& slot) {
    return (slot.role == SlotRole::kOutput || slot.role == SlotRole::kSaved) && slot.writes;
  });
}
inline std::vector<At> backwards(const Bundle& bundle) {
  return find<Run>(bundle, [&](const RankPlan&, const Run& run) { return adds_gradients(program_of(bundle, run)); });
}
inline std::vector<At> leaf_backwards(const Bundle& bundle) {
  return find<Run>(bundle, [&](const RankPlan&, const Run& run) {
    return adds_gradients(program_of(bundle, run)) && !makes_values(program_of(bundle, run));
  });
}
inline std::vector<At> forwards(const Bundle& bundle) {
  return find<Run>(bundle, [&](const RankPlan&, const Run& run) {
    const auto& of = program_of(bundle, run).of;
    return of && of->pass == plan::Pass::kForward;
  });
}
// Reductions of parameters' gradients; `of_first`: of the first one's communicator and buffer only.
inline std::vector<At> reductions(const Bundle& bundle) {
  return find<AllReduce>(bundle, [](const RankPlan& plan, const AllReduce& a) {
    return starts(name_of(plan, a.data), "grad ") && name_of(plan, a.data) != "grad norms";
  });
}
inline std::vector<At> reductions_of(const Bundle& bundle, const std::string& buffer_prefix) {
  return find<AllReduce>(
      bundle, [&](const RankPlan& plan, const AllReduce& a) { return starts(name_of(plan, a.data), buffer_prefix); });
}
inline std::vector<At> first_reduction(const Bundle& bundle) {
  const auto found = reductions(bundle);
  if (found.empty()) return {};
  const auto& plan = bundle.ranks[found[0].rank];
  const auto& reduce = std::get<AllReduce>(plan.instructions[found[0].index].action);
  const std::string name = plan.communicators[static_cast<size_t>(reduce.communicator)].name,
                    data = name_of(plan, reduce.data);
  return find<AllReduce>(bundle, [&](const RankPlan& p, const AllReduce& a) {
    return p.communicators[static_cast<size_t>(a.communicator)].name == name && name_of(p, a.data) == data;
  });
}

// Calls `change` for each argument of each run that has the role, until it returns true.
inline bool change_argument(
    Bundle& bundle, SlotRole role,
    const std::function<bool(RankPlan&, const Program&, size_t, BufferRange&, const Run&)>& change) {
  for (auto& plan : bundle.ranks)
    for (auto& instruction : plan.instructions) {
      const auto* run = std::get_if<Run>(&instruction.action);
      if (!run) continue;
      const auto& program = program_of(bundle, *run);
      for (size_t s = 0; s < program.slots.size(); ++s)
        if (program.slots[s].role == role &&
            change(plan, program, s, plan.arguments.edit()[static_cast<size_t>(run->arguments)].arguments[s], *run))
          return true;
    }
  return false;
}
// All members of the first exchange.
inline std::vector<At> first_exchange(const Bundle& b) {
  const auto found = find<plan::AllToAll>(b);
  if (found.empty()) return {};
  const std::string data =
      name_of(b.ranks[found[0].rank],
              std::get<plan::AllToAll>(b.ranks[found[0].rank].instructions[found[0].index].action).send);
  return find<plan::AllToAll>(
      b, [&](const RankPlan& plan, const plan::AllToAll& a) { return name_of(plan, a.send) == data; });
}

}  // namespace piper::damages
