// Processes of a run that outlive their parent: ranks of an mpirun that has ended, helpers of a rank in a session of
// their own. They become children of this process, which ends them. Used by the supervisor, after an attempt. What a
// piper-launch that was itself killed has left is found by piperd (daemon/left_processes).
#pragma once

#include <chrono>

namespace piper::launcher {

// From now on a process whose parent has ended is a child of this process, if it descends from it.
void adopt_orphans();

// Kills and takes the end of every child of this process, and of what they leave, until none is left or the time has
// passed: one that sleeps in the kernel cannot be killed. Whether none is left. No child may be waited for elsewhere.
bool end_children(std::chrono::milliseconds patience);

}  // namespace piper::launcher
