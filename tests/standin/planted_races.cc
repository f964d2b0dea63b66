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
