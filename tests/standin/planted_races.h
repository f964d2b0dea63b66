// Waits, records and streams of small plans that are wrong, so that nothing orders what touches the same bytes; and
// edits of plans and of commands, for tests that plant mistakes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <variant>
#include <vector>

#include "schemas/plan/plan.h"
#include "tests/standin/watched_device.h"

namespace piper::standin {

std::vector<plan::Instruction>& instructions_of(plan::Bundle& bundle, size_t rank);
// The first instruction of a kind on a rank, from `from` on. Throws where there is none.
template <class Action>
size_t find(plan::Bundle& bundle, size_t rank, size_t from = 0) {
  const std::vector<plan::Instruction>& list = instructions_of(bundle, rank);
  while (from < list.size() && !std::holds_alternative<Action>(list[from].action)) ++from;
  if (from == list.size()) throw std::logic_error("a plan without such an instruction");
  return from;
}
size_t wait_for(plan::Bundle& bundle, size_t rank, int32_t event);
void drop(plan::Bundle& bundle, size_t rank, size_t at);
// `first` and `second`, which are in this order, change places.
void swap(plan::Bundle& bundle, size_t rank, size_t first, size_t second);

// The pipeline with y in two messages, in each of them one of the two rows.
plan::Bundle two_messages();

// What takes a command's place on its way to the device.
using ChangeCommand = std::function<std::unique_ptr<hal::Command>(hal::Device& device, hal::Command& command)>;
// For GpuOptions::watch: changes the command at place `at` of a rank's recordings, and keeps what it puts there.
std::function<Watch(const plan::RankPlan&)> change_command(int32_t rank, size_t at, const ChangeCommand& change,
                                                           std::vector<std::unique_ptr<hal::Command>>& kept);
// A command over memory that is there no more when it is issued.
std::unique_ptr<hal::Command> over_freed_memory(hal::Device& device, hal::Command& command);

// The begin of what is said of a race: code and words.
constexpr const char* kRace = "race nothing orders ";
struct PlantedRace {
  const char* name;
  plan::Bundle (*bundle)();
  std::function<void(plan::Bundle&)> plant;
};
std::vector<PlantedRace> planted_races();

}  // namespace piper::standin
