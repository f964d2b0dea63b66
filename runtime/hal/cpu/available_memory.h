// How much memory a process may still fill before the kernel ends one: asked for before large allocations, since
// Linux hands out addresses for more than there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace piper::hal {

// The least of what the machine has available (/proc/meminfo) and what the limits of this process's cgroup and those
// above it leave (version 2, or the memory controller of version 1), where pages of files count as free, since the
// kernel takes them back. nullopt where nothing says. `machine`: a folder before /proc and /sys, for tests.
std::optional<int64_t> available_memory(const std::string& machine);

}  // namespace piper::hal
