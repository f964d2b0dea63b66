// The plan of one rank: what it does, in which order, on which bytes.
#include <algorithm>
#include <utility>

#include "tools/mutate/mutation.h"

namespace piper::mutate {
namespace {

using namespace plan;

RankPlan& rank(Draft& draft) { return draft.random.of(draft.bundle.ranks); }

template <class... Kinds>
std::vector<size_t> instructions_of(const RankPlan& plan) {
  std::vector<size_t> found;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if ((std::holds_alternative<Kinds>(plan.instructions[i].action) || ...)) found.push_back(i);
  return found;
}
void erase(RankPlan& plan, size_t at) {
  auto& list = plan.instructions.edit();
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}
template <class... Kinds>
bool instruction_dropped(Draft& draft) {
  RankPlan& plan = rank(draft);
  const auto found = instructions_of<Kinds...>(plan);
  if (found.empty()) return false;
  erase(plan, draft.random.of(found));
  return true;
}
template <class... Kinds>
bool instruction_doubled(Draft& draft) {
  RankPlan& plan = rank(draft);
  const auto found = instructions_of<Kinds...>(plan);
  if (found.empty()) return false;
  const size_t at = draft.random.of(found);
  const Instruction again = plan.instructions[at];
  auto& list = plan.instructions.edit();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), again);
  return true;
}
template <class... Kinds>
bool instruction_moved(Draft& draft) {
  RankPlan& plan = rank(draft);
  const auto found = instructions_of<Kinds...>(plan);
  if (found.empty()) return false;
  const size_t from = draft.random.of(found), to = draft.random.below(plan.instructions.size());
  if (from == to) return false;
  const Instruction moved = plan.instructions[from];
  erase(plan, from);
  auto& list = plan.instructions.edit();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(to), moved);
  return true;
}
bool stream(Draft& draft) {
  RankPlan& plan = rank(draft);
  if (plan.streams.size() < 2 || plan.instructions.empty()) return false;
  Instruction& chosen = draft.random.of(plan.instructions.edit());
  const int32_t before = chosen.stream;
  chosen.stream = static_cast<int32_t>(draft.random.below(plan.streams.size()));
  return chosen.stream != before;
}
BufferRange* argument(Draft& draft, RankPlan& plan) {
  if (plan.arguments.empty()) return nullptr;
  auto& list = draft.random.of(plan.arguments.edit()).arguments;
  return list.empty() ? nullptr : &draft.random.of(list);
}
bool argument_elsewhere(Draft& draft) {
  RankPlan& plan = rank(draft);
  BufferRange* const chosen = argument(draft, plan);
  if (chosen == nullptr) return false;
  const BufferRange before = *chosen;
  if (draft.random.coin()) chosen->offset += draft.random.coin() || chosen->offset < 64 ? 64 : -64;
  else *chosen = {static_cast<int32_t>(draft.random.below(plan.buffers.size())), 0};
  return chosen->buffer != before.buffer || chosen->offset != before.offset;
}
bool arguments_exchanged(Draft& draft) {
  RankPlan& plan = rank(draft);
  BufferRange *const one = argument(draft, plan), *const other = argument(draft, plan);
  if (one == nullptr || other == nullptr || one == other) return false;
  std::swap(*one, *other);
  return true;
}
bool runs_exchange_arguments(Draft& draft) {
  RankPlan& plan = rank(draft);
  const auto runs = instructions_of<Run>(plan);
  if (runs.size() < 2) return false;
  auto& list = plan.instructions.edit();
  Run &one = std::get<Run>(list[draft.random.of(runs)].action),
      &other = std::get<Run>(list[draft.random.of(runs)].action);
  if (one.arguments == other.arguments || plan.arguments[static_cast<size_t>(one.arguments)].arguments.size() !=
                                              plan.arguments[static_cast<size_t>(other.arguments)].arguments.size())
    return false;
  std::swap(one.arguments, other.arguments);
  return true;
}
bool buffer_elsewhere(Draft& draft) {
  RankPlan& plan = rank(draft);
  auto& buffers = plan.buffers.edit();
  Buffer& chosen = draft.random.of(buffers);
  const int64_t before = chosen.offset;
  chosen.offset = draft.random.coin() ? draft.random.of(buffers).offset : chosen.offset + 64;
  return chosen.offset != before;
}
bool buffer_class(Draft& draft) {
  RankPlan& plan = rank(draft);
  Buffer& chosen = draft.random.of(plan.buffers.edit());
  const BufferClass before = chosen.cls;
  chosen.cls = static_cast<BufferClass>(draft.random.below(kNumBufferClasses));
  return chosen.cls != before;
}
bool buffer_type(Draft& draft) {
  RankPlan& plan = rank(draft);
  Buffer& chosen = draft.random.of(plan.buffers.edit());
  const DType before = chosen.dtype;
  chosen.dtype = draft.random.coin() ? DType::kI32 : DType::kBF16;
  return chosen.dtype != before;
}
bool members_reordered(Draft& draft) {
  RankPlan& plan = rank(draft);
  if (plan.communicators.empty()) return false;
  auto& members = draft.random.of(plan.communicators).ranks;
  if (members.size() < 2) return false;
  std::swap(members[0], members[1]);
  return true;
}
bool channel(Draft& draft) {
  RankPlan& plan = rank(draft);
  if (plan.channels.empty()) return false;
  Channel& chosen = draft.random.of(plan.channels);
  if (draft.random.coin()) chosen.id += 1;
  else chosen.peer = static_cast<int32_t>(draft.random.below(draft.bundle.ranks.size()));
  return true;
}
bool placement(Draft& draft) {
  RankPlan& plan = rank(draft);
  if (plan.placements.empty()) return false;
  Placement& chosen = draft.random.of(plan.placements);
  switch (draft.random.below(4)) {
    case 0: chosen.part.owner = !chosen.part.owner; return true;
    case 1: chosen.part.first += 1; return true;
    case 2: chosen.part.count -= 1; return chosen.part.count > 0;
    default: chosen.part.where.offset += 4; return true;
  }
}
bool placements_exchanged(Draft& draft) {
  RankPlan& plan = rank(draft);
  if (plan.placements.size() < 2) return false;
  Placement &one = draft.random.of(plan.placements), &other = draft.random.of(plan.placements);
  if (&one == &other || one.part.count != other.part.count) return false;
  std::swap(one.part.where, other.part.where);
  return true;
}
bool samples(Draft& draft) {
  RankPlan& plan = rank(draft);
  if (plan.inputs.empty()) return false;
  InputSlice& chosen = draft.random.of(plan.inputs);
  const int64_t before = chosen.first;
  chosen.first = static_cast<int64_t>(draft.random.below(static_cast<size_t>(draft.bundle.manifest.batch)));
  return chosen.first != before;
}
bool scalar(Draft& draft) {
  RankPlan& plan = rank(draft);
  if (plan.scalars.empty()) return false;
  auto& values = draft.random.of(plan.scalars).values;
  if (values.empty()) return false;
  draft.random.of(values) += 1;
  return true;
}

}  // namespace

std::vector<Mutation> of_ranks() {
  return {
      {"run or update dropped", instruction_dropped<Run, Update>},
      {"run or update doubled", instruction_doubled<Run, Update>},
      {"run or update moved", instruction_moved<Run, Update>},
      {"wait or record dropped", instruction_dropped<Wait, Record>},
      {"wait or record moved", instruction_moved<Wait, Record>},
      {"message or collective moved", instruction_moved<Send, Recv, AllReduce, ReduceScatter, AllGather, AllToAll>},
      {"instruction: another stream", stream},
      {"argument elsewhere", argument_elsewhere},
      {"arguments exchanged", arguments_exchanged},
      {"runs exchange arguments", runs_exchange_arguments},
      {"buffer elsewhere", buffer_elsewhere},
      {"buffer: another class", buffer_class},
      {"buffer: another element type", buffer_type},
      {"members of a communicator reordered", members_reordered},
      {"channel: another id or peer", channel},
      {"placement: another part or owner", placement},
      {"placements exchanged", placements_exchanged},
      {"input: other samples", samples},
      {"scalar: another value", scalar},
  };
}

}  // namespace piper::mutate
