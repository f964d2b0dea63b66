#include "schemas/plan/communicator_uses.h"

#include "schemas/plan/actions.h"

#include <algorithm>

namespace piper::plan {

bool added_by_library(const SumTypes& types, Summing summing) {
  return summing == Summing::kLibrary && types.message == types.data && types.sum == types.data &&
         types.data != DType::kBool;
}

std::vector<CommunicatorUses> communicator_uses(const RankPlan& plan, Summing summing) {
  std::vector<CommunicatorUses> all(plan.communicators.size());
  const auto of = [&](int32_t communicator) -> CommunicatorUses& { return all.at(static_cast<size_t>(communicator)); };
  for (const Instruction& instruction : plan.instructions) {
    const auto note = [&](const auto& a, bool CommunicatorUses::* use) { of(a.communicator).*use = true; };
    const auto sum = [&](const auto& a, bool CommunicatorUses::* of_library) {
      note(a, added_by_library(a.types, summing) ? of_library : &CommunicatorUses::all_messages);
    };
    std::visit(Cases{[&](const AllReduce& a) { sum(a, &CommunicatorUses::all_reduce); },
                     [&](const ReduceScatter& a) { sum(a, &CommunicatorUses::reduce_scatter); },
                     [&](const AllGather& a) { note(a, &CommunicatorUses::all_gather); },
                     [&](const AllToAll& a) { note(a, &CommunicatorUses::all_messages); },
                     [](const IsOneOf<Run, Update, Send, Recv, Record, Wait> auto&) {}},
               instruction.action);
  }
  return all;
}

bool counts_rows(const RankPlan& plan) {
  return std::any_of(plan.instructions.begin(), plan.instructions.end(), [](const Instruction& instruction) {
    const auto* exchange = std::get_if<AllToAll>(&instruction.action);
    return exchange != nullptr && exchange->row > 0;
  });
}

std::vector<ChannelUse> channel_uses(const RankPlan& plan) {
  std::vector<ChannelUse> all(plan.channels.size());
  for (const Instruction& instruction : plan.instructions) {
    const auto use = [&](int32_t channel, bool sends) {
      all.at(static_cast<size_t>(channel)) = {instruction.stream, sends};
    };
    std::visit(
        Cases{[&](const Send& send) { use(send.channel, true); }, [&](const Recv& recv) { use(recv.channel, false); },
              [](const IsLaunch auto&) {}, [](const IsCollective auto&) {}, [](const IsEvent auto&) {}},
        instruction.action);
  }
  return all;
}

CommunicationUses communication_uses(const RankPlan& plan, Summing summing) {
  return {communicator_uses(plan, summing), channel_uses(plan)};
}

}  // namespace piper::plan
