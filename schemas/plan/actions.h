// Asking instructions for what they are, every kind by name: whoever leaves one out does not compile. So a new kind of
// instruction is skipped by nobody.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <variant>

#include "schemas/plan/plan.h"

namespace piper::plan {

// std::visit(Cases{[](const Run& run) {...}, [](const IsTransfer auto& transfer) {...}, ...}, action)
template <class... Functions>
struct Cases : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Cases(Functions...) -> Cases<Functions...>;

// What kinds of instructions are called, in the order of Action: the key that one begins with in a plan's text.
inline constexpr std::string_view kActionNames[] = {
    "run", "send", "recv", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "record", "wait", "update"};
static_assert(std::size(kActionNames) == std::variant_size_v<Action>);
template <class Kind>
inline constexpr std::string_view kActionName = kActionNames[Action(Kind()).index()];

template <class T, class... Kinds>
concept IsOneOf = (std::same_as<T, Kinds> || ...);
template <class T>
concept IsLaunch = IsOneOf<T, Run, Update>;
template <class T>
concept IsSum = IsOneOf<T, AllReduce, ReduceScatter>;
template <class T>
concept IsCollective = IsSum<T> || IsOneOf<T, AllGather, AllToAll>;
template <class T>
concept IsTransfer = IsCollective<T> || IsOneOf<T, Send, Recv>;
template <class T>
concept IsEvent = IsOneOf<T, Record, Wait>;

// -1 of what starts no program.
struct Launch {
  int32_t program = -1, arguments = -1;
};
inline Launch launch_of(const Action& action) {
  return std::visit(
      Cases{[](const IsLaunch auto& launch) { return Launch{launch.program, launch.arguments}; },
            [](const IsTransfer auto&) { return Launch{}; }, [](const IsEvent auto&) { return Launch{}; }},
      action);
}

// nullptr of what is no run.
inline const Run* run_of(const Action& action) {
  using Found = const Run*;
  return std::visit(Cases{[](const Run& run) -> Found { return &run; }, [](const Update&) -> Found { return nullptr; },
                          [](const IsTransfer auto&) -> Found { return nullptr; },
                          [](const IsEvent auto&) -> Found { return nullptr; }},
                    action);
}

// -1 of what is no collective.
inline int32_t communicator_of(const Action& action) {
  return std::visit(Cases{[](const IsCollective auto& collective) { return collective.communicator; },
                          [](const IsOneOf<Run, Update, Send, Recv, Record, Wait> auto&) { return int32_t{-1}; }},
                    action);
}

// For a sum over ranks.
inline std::optional<SumTypes> sum_types_of(const Action& action) {
  using Found = std::optional<SumTypes>;
  return std::visit(
      Cases{[](const IsSum auto& sum) { return Found(sum.types); },
            [](const IsOneOf<Run, Update, Send, Recv, AllGather, AllToAll, Record, Wait> auto&) { return Found(); }},
      action);
}

// The event that an instruction waits for, or records; -1: none.
inline int32_t awaited_event(const Action& action) {
  return std::visit(
      Cases{[](const Wait& wait) { return wait.event; }, [](const Record&) { return int32_t{-1}; },
            [](const IsLaunch auto&) { return int32_t{-1}; }, [](const IsTransfer auto&) { return int32_t{-1}; }},
      action);
}
inline int32_t recorded_event(const Action& action) {
  return std::visit(
      Cases{[](const Record& record) { return record.event; }, [](const Wait&) { return int32_t{-1}; },
            [](const IsLaunch auto&) { return int32_t{-1}; }, [](const IsTransfer auto&) { return int32_t{-1}; }},
      action);
}

}  // namespace piper::plan
