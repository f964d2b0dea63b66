#include "schemas/plan/communicator_uses.h"

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
    if (const auto* a = std::get_if<AllReduce>(&instruction.action))
      (added_by_library(a->types, summing) ? of(a->communicator).all_reduce : of(a->communicator).all_messages) = true;
    if (const auto* a = std::get_if<ReduceScatter>(&instruction.action))
      (added_by_library(a->types, summing) ? of(a->communicator).reduce_scatter : of(a->communicator).all_messages) =
          true;
    if (const auto* a = std::get_if<AllGather>(&instruction.action)) of(a->communicator).all_gather = true;
    if (const auto* a = std::get_if<AllToAll>(&instruction.action)) of(a->communicator).all_messages = true;
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
    const auto* send = std::get_if<Send>(&instruction.action);
    const auto* recv = std::get_if<Recv>(&instruction.action);
    if (send == nullptr && recv == nullptr) continue;
    all.at(static_cast<size_t>(send != nullptr ? send->channel : recv->channel)) = {instruction.stream,
                                                                                    send != nullptr};
  }
  return all;
}

}  // namespace piper::plan
