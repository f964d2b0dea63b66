// What a rank has started outlives it: a rank of mpirun's its mpirun, a helper that made a session of its own its rank.
// Such processes become children of this one, which ends them. Used by the supervisor, behind an attempt; what piperd
// finds of a piper-launch that was killed is daemon/left_processes.
#pragma once

#include <chrono>

namespace piper::launcher {

// From now on a process whose parent has ended is a child of this process, if it descends from it.
void adopt_orphans();

// Kills and takes the end of every child of this process, and of what they leave, until none is left or the time has
// passed: one that sleeps in the kernel cannot be killed. Whether none is left. No child may be waited for elsewhere.
bool end_children(std::chrono::milliseconds patience);

}  // namespace piper::launcher
