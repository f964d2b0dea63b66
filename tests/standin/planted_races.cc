#include "tests/standin/planted_races.h"

#include <utility>

#include "tests/unit/hand_written_plans.h"

namespace piper::standin {

std::vector<plan::Instruction>& instructions_of(plan::Bundle& bundle, size_t rank) {
  return bundle.ranks[rank].instructions.edit();
}

size_t wait_for(plan::Bundle& bundle, size_t rank, int32_t event) {
  size_t at = find<plan::Wait>(bundle, rank);
  while (std::get<plan::Wait>(instructions_of(bundle, rank)[at].action).event != event)
    at = find<plan::Wait>(bundle, rank, at + 1);
  return at;
}

void drop(plan::Bundle& bundle, size_t rank, size_t at) {
  instructions_of(bundle, rank).erase(instructions_of(bundle, rank).begin() + static_cast<ptrdiff_t>(at));
}

void swap(plan::Bundle& bundle, size_t rank, size_t first, size_t second) {
  std::swap(instructions_of(bundle, rank)[first], instructions_of(bundle, rank)[second]);
}

plan::Bundle two_messages() {
  plan::Bundle bundle = hand_written::pipeline();
  for (size_t rank = 0; rank < 2; ++rank) {
    bundle.ranks[rank].channels.push_back({"second row", static_cast<int32_t>(1 - rank), 5});
    const bool sends = rank == 0;
    const size_t at = sends ? find<plan::Send>(bundle, rank) : find<plan::Recv>(bundle, rank);
    plan::Instruction second = instructions_of(bundle, rank)[at];
    const auto cut = [&](auto& first, auto& other) {
      first.count = other.count = 2;
      other.data.offset += 8;
      other.channel = 2;
    };
    if (sends) cut(std::get<plan::Send>(instructions_of(bundle, rank)[at].action), std::get<plan::Send>(second.action));
    else cut(std::get<plan::Recv>(instructions_of(bundle, rank)[at].action), std::get<plan::Recv>(second.action));
    instructions_of(bundle, rank)
        .insert(instructions_of(bundle, rank).begin() + static_cast<ptrdiff_t>(at) + 1, second);
  }
  return bundle;
}

std::unique_ptr<hal::Command> over_freed_memory(hal::Device& device, hal::Command&) {
  const auto region = std::move(device.allocate(4096)).value();
  return device.fill(region->base(), std::byte{0}, 4096);
}

std::function<Watch(const plan::RankPlan&)> change_command(int32_t rank, size_t at, const ChangeCommand& change,
                                                           std::vector<std::unique_ptr<hal::Command>>& kept) {
  return [=, &kept](const plan::RankPlan& plan) -> Watch {
    if (plan.rank != rank) return {};
    return {[=, &kept](hal::Device& device, std::vector<hal::Issue>& commands) {
              hal::Command*& command = commands.at(at).command;
              kept.push_back(change(device, *command));
              command = kept.back().get();
            },
            {}};
  };
}

std::vector<PlantedRace> planted_races() {
  using hand_written::pipeline, hand_written::replicas, hand_written::sharded;
  return {
      {"a send does not wait for what it sends", pipeline, [](auto& b) { drop(b, 0, wait_for(b, 0, 0)); }},
      {"a backward does not wait for its gradient", pipeline, [](auto& b) { drop(b, 0, wait_for(b, 0, 1)); }},
      {"a wait stands behind what it is for", pipeline,
       [](auto& b) {
         const size_t at = wait_for(b, 0, 1);
         swap(b, 0, at, at + 1);
       }},
      {"an event is recorded in front of what it is for", pipeline,
       [](auto& b) {
         const size_t at = find<plan::Record>(b, 0);
         swap(b, 0, at - 1, at);
       }},
      {"a wait is for another event", pipeline,
       [](auto& b) { std::get<plan::Wait>(instructions_of(b, 0)[wait_for(b, 0, 0)].action).event = 1; }},
      {"a run is on the wrong stream", pipeline,
       [](auto& b) {
         instructions_of(b, 0)[find<plan::Run>(b, 0)].stream = 1;
         drop(b, 0, wait_for(b, 0, 1));
       }},
      {"a buffer is used again before it was sent", pipeline,
       [](auto& b) {
         const size_t sent = find<plan::Send>(b, 0);
         instructions_of(b, 0).insert(instructions_of(b, 0).begin() + static_cast<ptrdiff_t>(sent) + 1,
                                      instructions_of(b, 0)[find<plan::Run>(b, 0)]);
       }},
      {"a sum does not wait for the gradients", replicas, [](auto& b) { drop(b, 1, wait_for(b, 1, 0)); }},
      {"an update does not wait for the sum", replicas, [](auto& b) { drop(b, 0, wait_for(b, 0, 1)); }},
      {"an update does not wait for its part", sharded, [](auto& b) { drop(b, 1, wait_for(b, 1, 1)); }},
      {"a gather does not wait for the update", sharded, [](auto& b) { drop(b, 0, wait_for(b, 0, 2)); }},
  };
}

}  // namespace piper::standin
