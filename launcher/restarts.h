// When a run that failed is started again, with what arguments, and how long to wait before.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace piper::launcher {

// The status of a rank that was asked to stop, and has saved what it did: the others are about to do the same.
inline constexpr int kStoppedOnRequest = 75;

// Whether another attempt may fare better: a storage that failed (74), a peer that is gone (76), a hang (81), a process
// that a signal ended (128 + n). A refusal, a bug, a run that was asked to stop or that diverged would only repeat.
bool worth_restarting(int exit_status);

// "--name" or "--name=...", among the program's own arguments.
bool has_flag(const std::vector<std::string>& arguments, const std::string& name);

// The same run, going on from the newest valid checkpoint, whatever it began from.
std::vector<std::string> resuming(const std::vector<std::string>& arguments);

// Names of the checkpoints in the folder of --checkpoint, in order; none where there is no such folder or flag. A
// relative folder is one of `working`; "": of this process.
std::vector<std::string> checkpoints_of(const std::vector<std::string>& arguments, const std::string& working = "");

// Whether the newest checkpoint is this run's, given those before its first attempt: a run that finds others takes up
// the one that was asked for, or refuses them, and until it has begun the next attempt has to do the same.
bool has_begun(const std::vector<std::string>& before, const std::vector<std::string>& now);

// Times (milliseconds) of `earlier` restarts that count against a budget: those of the last `window`, and what a clock
// that was set back puts after `now`.
std::vector<int64_t> counted_restarts(const std::vector<int64_t>& earlier, int64_t now,
                                      std::chrono::milliseconds window);

// Before attempt `attempt`, from 1 on: a second, doubled with each attempt up to five minutes, and up to a quarter of
// it more, so that what failed together does not come back together. `chance`: from [0, 1).
std::chrono::milliseconds pause_before(int32_t attempt, double chance);

}  // namespace piper::launcher
