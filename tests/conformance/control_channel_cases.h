// What every control channel does, whatever carries its messages: cases for the tests of each implementation.
#pragma once

#include <functional>
#include <optional>

#include "runtime/hal/control_channel.h"

namespace piper::hal {

constexpr std::chrono::seconds kPatience{60};
inline const WaitControl kWait{nullptr, kPatience};

// What a rank does; what is wrong then, or "".
using RankBody = std::function<std::string(ControlChannel&)>;
// Runs it on every rank of a world and checks that nothing is wrong. The number of messages that all ranks sent, where
// the implementation can be counted.
using RunEverywhere = std::function<std::optional<int>(int32_t ranks, const RankBody& body)>;

// Runs `body` on a thread a rank and checks that nothing is wrong.
void run_on_threads(int32_t ranks, const std::function<std::string(int32_t rank)>& body);

void every_rank_gets_every_text(const RunEverywhere& run);
void nobody_passes_a_barrier_early(const RunEverywhere& run);
void a_size_that_cannot_be_is_refused(const RunEverywhere& run);
void a_long_message_arrives(const RunEverywhere& run);
// Every rank has more for the next one than may lie anywhere in between.
void long_texts_go_around(const RunEverywhere& run);

}  // namespace piper::hal
