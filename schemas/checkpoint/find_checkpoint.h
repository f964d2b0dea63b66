// The checkpoints of a folder: which there are, and which of them a run goes on from.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schemas/checkpoint/open_checkpoint.h"

namespace piper::checkpoint {

// Steps that have a folder of their final name, rising; whether they are valid is not looked at. Empty where there is
// no such folder. R0705: the folder cannot be read.
Result<std::vector<int64_t>> list_steps(const std::string& folder);

// Whether every byte of one that was opened is what was committed.
using CheckBytes = std::function<Status(const OpenCheckpoint&)>;
Status check_bytes(const OpenCheckpoint& checkpoint);  // all of them, here

// The newest one that `check` finds valid; nothing where the folder has none at all. `note` gets each damaged one
// that is passed over, which stays where it is. R0702: all of them are damaged.
Result<std::optional<OpenCheckpoint>> find_newest_valid(const std::string& folder,
                                                        const std::function<void(const std::string&)>& note,
                                                        const CheckBytes& check = check_bytes);
// That of one step, checked. R0702: it is not there, or damaged.
Result<OpenCheckpoint> find_exact(const std::string& folder, int64_t step, const CheckBytes& check = check_bytes);

}  // namespace piper::checkpoint
