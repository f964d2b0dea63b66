// What the system says of a process, as evidence of why a rank does not go on. Used by who writes, watches and copies
// rings.
#pragma once

#include <cstdint>

namespace piper::live {

struct ProcessState {
  char letter = 0;     // of /proc/PID/stat: R running, S asleep, D in the kernel, T stopped; 'X' gone, 0 unknown
  uint64_t start = 0;  // in clock ticks since the machine started; 0: unknown
};

ProcessState look_at_process(int64_t process);
// The first 64 bits of the machine's boot id; 0: unknown. Ids of processes are comparable where it is the same.
uint64_t boot_id();

}  // namespace piper::live
