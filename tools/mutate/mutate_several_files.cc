// The same change wherever a thing is named: the ranks agree with one another, and still not with the model.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "schemas/plan/kernels.h"
#include "tools/mutate/mutation.h"

namespace piper::mutate {
namespace {

using namespace plan;

template <class Kind>
std::string communicator_of(const RankPlan& plan, const Kind& action) {
  return plan.communicators[static_cast<size_t>(action.communicator)].name;
}

// A collective on all of its members: by communicator, and its place in the communicator's sequence.
struct Collective {
  std::string communicator;
  size_t place = 0;
};
template <class Visit>
void each_collective(Bundle& bundle, Visit visit) {
  for (RankPlan& plan : bundle.ranks) {
    std::map<std::string, size_t> counts;
    for (size_t i = 0; i < plan.instructions.size(); ++i)
      std::visit(
          [&](const auto& action) {
            if constexpr (requires { action.communicator; }) {
              const std::string name = communicator_of(plan, action);
              visit(plan, i, Collective{name, counts[name]++});
            }
          },
          plan.instructions[i].action);
  }
}
bool choose(Draft& draft, Collective& chosen) {
  std::vector<Collective> all;
  each_collective(draft.bundle, [&](const RankPlan&, size_t, const Collective& found) { all.push_back(found); });
  if (all.empty()) return false;
  chosen = draft.random.of(all);
  return true;
}
struct Member {
  RankPlan* plan = nullptr;
  size_t at = 0;
};
std::vector<Member> members(Bundle& bundle, const Collective& chosen) {
  std::vector<Member> found;
  each_collective(bundle, [&](RankPlan& plan, size_t at, const Collective& each) {
    if (each.communicator == chosen.communicator && each.place == chosen.place) found.push_back({&plan, at});
  });
  return found;
}

bool collective_dropped(Draft& draft) {
  Collective chosen;
  if (!choose(draft, chosen)) return false;
  for (const Member& member : members(draft.bundle, chosen)) {
    auto& list = member.plan->instructions.edit();
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(member.at));
  }
  return true;
}
// What a collective sums or gathers is said to be whole on every rank before it, and the collective is left out.
bool collective_called_superfluous(Draft& draft) {
  std::vector<Collective> of_cuts;
  std::map<std::pair<std::string, size_t>, std::set<std::string>> values;  // slots bound to what it reads or writes
  each_collective(draft.bundle, [&](const RankPlan& plan, size_t at, const Collective& found) {
    std::set<std::pair<int32_t, int64_t>> places;
    std::visit(
        [&](const auto& action) {
          if constexpr (requires { action.data; }) places.insert({action.data.buffer, action.data.offset});
          if constexpr (requires { action.out; }) places.insert({action.out.buffer, action.out.offset});
        },
        plan.instructions[at].action);
    std::set<std::string>& names = values[{found.communicator, found.place}];
    for (const Instruction& instruction : plan.instructions) {
      const auto* run = std::get_if<Run>(&instruction.action);
      if (run == nullptr) continue;
      const auto& bound = plan.arguments[static_cast<size_t>(run->arguments)].arguments;
      const auto& slots = draft.bundle.programs[static_cast<size_t>(run->program)].slots;
      for (size_t i = 0; i < bound.size(); ++i)
        if (slots[i].cut >= 0 && places.count({bound[i].buffer, bound[i].offset}) != 0) names.insert(slots[i].name);
    }
    if (!names.empty()) of_cuts.push_back(found);
  });
  if (of_cuts.empty()) return false;
  const Collective chosen = draft.random.of(of_cuts);
  const std::set<std::string> names = values[{chosen.communicator, chosen.place}];
  for (Program& program : draft.bundle.programs)
    for (Slot& slot : program.slots)
      if (names.count(slot.name) != 0) {
        slot.spread = Spread::kSame;
        slot.cut = -1;
      }
  for (const Member& member : members(draft.bundle, chosen)) {
    auto& list = member.plan->instructions.edit();
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(member.at));
  }
  return true;
}
bool collective_doubled(Draft& draft) {
  Collective chosen;
  if (!choose(draft, chosen)) return false;
  for (const Member& member : members(draft.bundle, chosen)) {
    auto& list = member.plan->instructions.edit();
    const Instruction again = list[member.at];
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(member.at), again);
  }
  return true;
}
// As many bytes, taken for elements of another type; with the type of the buffers where `buffers`.
template <bool buffers>
bool collective_of_another_type(Draft& draft) {
  Collective chosen;
  if (!choose(draft, chosen)) return false;
  static constexpr DType kTypes[] = {DType::kI32, DType::kF64, DType::kBF16, DType::kI64};
  const DType type = kTypes[draft.random.below(std::size(kTypes))];
  bool any = false;
  for (const Member& member : members(draft.bundle, chosen)) {
    Instruction& instruction = member.plan->instructions.edit()[member.at];
    const auto say = [&](BufferRange where, int64_t& count, DType& before) {
      const int64_t bytes = count * dtype_bytes(before);
      if (bytes % dtype_bytes(type) != 0 || before == type) return;
      any = true;
      count = bytes / dtype_bytes(type);
      before = type;
      if (buffers) member.plan->buffers.edit()[static_cast<size_t>(where.buffer)].dtype = type;
    };
    if (auto* reduce = std::get_if<AllReduce>(&instruction.action)) {
      DType data = reduce->types.data;
      say(reduce->data, reduce->count, data);
      reduce->types = SumTypes(data);
    } else if (auto* gather = std::get_if<AllGather>(&instruction.action)) {
      say(gather->data, gather->count, gather->dtype);
    } else if (auto* scatter = std::get_if<ReduceScatter>(&instruction.action)) {
      DType data = scatter->types.data;
      say(scatter->data, scatter->count, data);
      scatter->types = SumTypes(data);
    }
  }
  return any;
}
bool communicator_reordered(Draft& draft) {
  Collective chosen;
  if (!choose(draft, chosen)) return false;
  for (RankPlan& plan : draft.bundle.ranks)
    for (Communicator& communicator : plan.communicators)
      if (communicator.name == chosen.communicator) std::reverse(communicator.ranks.begin(), communicator.ranks.end());
  return true;
}

// A program on all ranks, in all of its runs.
bool runs_of_a_program_dropped(Draft& draft) {
  if (draft.bundle.programs.empty()) return false;
  const auto chosen = static_cast<int32_t>(draft.random.below(draft.bundle.programs.size()));
  bool any = false;
  for (RankPlan& plan : draft.bundle.ranks) {
    auto& list = plan.instructions.edit();
    const auto gone = std::remove_if(list.begin(), list.end(), [&](const Instruction& instruction) {
      const auto* run = std::get_if<Run>(&instruction.action);
      const auto* update = std::get_if<Update>(&instruction.action);
      return (run != nullptr && run->program == chosen) || (update != nullptr && update->program == chosen);
    });
    any = any || gone != list.end();
    list.erase(gone, list.end());
  }
  return any;
}
bool runs_of_a_program_doubled(Draft& draft) {
  if (draft.bundle.programs.empty()) return false;
  const auto chosen = static_cast<int32_t>(draft.random.below(draft.bundle.programs.size()));
  bool any = false;
  for (RankPlan& plan : draft.bundle.ranks) {
    std::vector<Instruction> list;
    for (const Instruction& instruction : plan.instructions) {
      list.push_back(instruction);
      const auto* run = std::get_if<Run>(&instruction.action);
      if (run != nullptr && run->program == chosen) list.push_back(instruction), any = true;
    }
    plan.instructions = std::move(list);
  }
  return any;
}
// A slot that added up is said to be a state, so that its sums are not followed; its program runs twice.
bool gradients_said_to_be_states(Draft& draft) {
  std::vector<Program*> found;
  for (Program& program : draft.bundle.programs)
    if (program.of && std::any_of(program.slots.begin(), program.slots.end(),
                                  [](const Slot& slot) { return slot.role == SlotRole::kGradient; }))
      found.push_back(&program);
  if (found.empty()) return false;
  Program& chosen = *draft.random.of(found);
  for (Slot& slot : chosen.slots)
    if (slot.role == SlotRole::kGradient) slot.role = SlotRole::kState;
  const auto index = static_cast<int32_t>(&chosen - draft.bundle.programs.data());
  for (RankPlan& plan : draft.bundle.ranks) {
    std::vector<Instruction> list;
    for (const Instruction& instruction : plan.instructions) {
      list.push_back(instruction);
      const auto* run = std::get_if<Run>(&instruction.action);
      if (run != nullptr && run->program == index) list.push_back(instruction);
    }
    plan.instructions = std::move(list);
  }
  return true;
}

bool tensor_said_frozen(Draft& draft) {
  auto& tensors = draft.bundle.manifest.tensors;
  if (tensors.empty()) return false;
  TensorInfo& chosen = draft.random.of(tensors);
  chosen.trained = !chosen.trained;
  return true;
}
// A trained tensor without its accumulator, its part of the norm and its update.
bool tensor_not_trained(Draft& draft) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : draft.bundle.manifest.tensors)
    if (tensor.trained) names.push_back(tensor.name);
  if (names.empty()) return false;
  const std::string& name = draft.random.of(names);
  bool any = false;
  for (RankPlan& plan : draft.bundle.ranks) {
    std::set<std::pair<int32_t, int64_t>> places;  // of its gradient
    for (const Placement& placement : plan.placements)
      if (placement.name == name && placement.kind == PlacementKind::kGradient)
        places.insert({placement.part.where.buffer, placement.part.where.offset});
    if (places.empty()) continue;
    any = true;
    const auto gone = std::remove_if(plan.placements.begin(), plan.placements.end(), [&](const Placement& placement) {
      return placement.name == name && placement.kind != PlacementKind::kValue;
    });
    plan.placements.erase(gone, plan.placements.end());
    auto& list = plan.instructions.edit();
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](const Instruction& instruction) {
                                const auto* update = std::get_if<Update>(&instruction.action);
                                if (update == nullptr) return false;
                                for (const BufferRange& where :
                                     plan.arguments[static_cast<size_t>(update->arguments)].arguments)
                                  if (places.count({where.buffer, where.offset}) != 0) return true;
                                return false;
                              }),
               list.end());
  }
  for (Program& program : draft.bundle.programs) {
    const auto slot = std::find_if(program.slots.begin(), program.slots.end(), [&](const Slot& each) {
      return each.role == SlotRole::kGradient && each.of == name;
    });
    if (slot == program.slots.end()) continue;
    const auto index = static_cast<int32_t>(slot - program.slots.begin());
    program.calls.erase(std::remove_if(program.calls.begin(), program.calls.end(),
                                       [&](const KernelCall& call) {
                                         return std::any_of(call.outputs.begin(), call.outputs.end(),
                                                            [&](const Operand& out) { return out.slot == index; });
                                       }),
                        program.calls.end());
    slot->writes = false;
    slot->reads = true;
  }
  return any;
}
bool programs_exchanged(Draft& draft) {
  auto& programs = draft.bundle.programs;
  if (programs.size() < 2) return false;
  const auto one = static_cast<int32_t>(draft.random.below(programs.size())),
             other = static_cast<int32_t>(draft.random.below(programs.size()));
  if (one == other ||
      programs[static_cast<size_t>(one)].slots.size() != programs[static_cast<size_t>(other)].slots.size())
    return false;
  for (RankPlan& plan : draft.bundle.ranks)
    for (Instruction& instruction : plan.instructions.edit())
      if (auto* run = std::get_if<Run>(&instruction.action)) {
        if (run->program == one) run->program = other;
        else if (run->program == other) run->program = one;
      }
  return true;
}
// Harmless: names of buffers, streams and events mean nothing.
bool buffer_renamed(Draft& draft) {
  const std::string name = draft.random.of(draft.random.of(draft.bundle.ranks).buffers.edit()).name;
  for (RankPlan& plan : draft.bundle.ranks)
    for (Buffer& buffer : plan.buffers.edit())
      if (buffer.name == name) buffer.name = "renamed " + name;
  return true;
}
bool slot_renamed(Draft& draft) {
  std::vector<std::string> names;
  for (const Program& program : draft.bundle.programs)
    for (const Slot& slot : program.slots) names.push_back(slot.name);
  if (names.empty()) return false;
  const std::string name = draft.random.of(names);
  for (Program& program : draft.bundle.programs)
    for (Slot& slot : program.slots)
      if (slot.name == name) slot.name = "renamed " + name;
  return true;
}
bool update_of_another_group(Draft& draft) {
  const size_t groups = draft.bundle.manifest.optimizer.groups.size();
  if (groups < 2) return false;
  std::vector<int32_t> programs;
  for (const RankPlan& plan : draft.bundle.ranks)
    for (const Instruction& instruction : plan.instructions)
      if (const auto* update = std::get_if<Update>(&instruction.action)) programs.push_back(update->program);
  if (programs.empty()) return false;
  const int32_t chosen = draft.random.of(programs);
  for (RankPlan& plan : draft.bundle.ranks)
    for (Instruction& instruction : plan.instructions.edit())
      if (auto* update = std::get_if<Update>(&instruction.action); update != nullptr && update->program == chosen)
        update->group = static_cast<int32_t>((static_cast<size_t>(update->group) + 1) % groups);
  return true;
}
bool message_shortened(Draft& draft) {
  struct Key {
    int32_t from, to, id;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> keys;
  for (const RankPlan& plan : draft.bundle.ranks)
    for (const Channel& channel : plan.channels) keys.push_back({plan.rank, channel.peer, channel.id});
  if (keys.empty()) return false;
  const Key chosen = draft.random.of(keys);
  bool any = false;
  for (RankPlan& plan : draft.bundle.ranks)
    for (Instruction& instruction : plan.instructions.edit()) {
      if (auto* send = std::get_if<Send>(&instruction.action)) {
        const Channel& channel = plan.channels[static_cast<size_t>(send->channel)];
        if (Key{plan.rank, channel.peer, channel.id} == chosen) send->count /= 2, any = true;
      } else if (auto* recv = std::get_if<Recv>(&instruction.action)) {
        const Channel& channel = plan.channels[static_cast<size_t>(recv->channel)];
        if (Key{channel.peer, plan.rank, channel.id} == chosen) recv->count /= 2, any = true;
      }
    }
  return any;
}

}  // namespace

std::vector<Mutation> of_several_files() {
  return {
      {"all members: collective dropped", collective_dropped},
      {"all members: collective dropped, what it reads called whole", collective_called_superfluous},
      {"all members: collective doubled", collective_doubled},
      {"all members: collective of another type", collective_of_another_type<false>},
      {"all members: collective and buffers of another type", collective_of_another_type<true>},
      {"all members: communicator reordered", communicator_reordered, true},
      {"both ends: messages shortened", message_shortened},
      {"all ranks: a program's runs dropped", runs_of_a_program_dropped},
      {"all ranks: a program's runs doubled", runs_of_a_program_doubled},
      {"all ranks: two programs exchanged", programs_exchanged},
      {"gradients said to be states, runs doubled", gradients_said_to_be_states},
      {"tensor said trained, or frozen", tensor_said_frozen},
      {"tensor without gradient, norm and update", tensor_not_trained},
      {"update of another group", update_of_another_group},
      {"buffer renamed everywhere", buffer_renamed},
      {"slot renamed everywhere", slot_renamed},
  };
}

}  // namespace piper::mutate
