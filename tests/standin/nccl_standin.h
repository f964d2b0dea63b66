// What tests ask of the stand-in for NCCL beside NCCL's own functions.
#pragma once

#include <string>
#include <vector>

namespace piper::standin {

// From now on the members of a communicator are processes of this machine, one rank each.
void set_ranks_are_processes(bool processes);

struct NcclCommunicatorSeen {
  std::string name;
  int members = 0, rank = 0;
  int max_ctas = 0;     // 0: NCCL's choice
  int initialised = 0;  // in which group of the thread, from 1; 0: in none
  bool finalized = false;
  bool destroyed = false;  // in order; not aborted
};
// Those that the calling thread has initialised, in order.
std::vector<NcclCommunicatorSeen> nccl_communicators();
// Threads in a call of ncclCommAbort or ncclCommDestroy that waits.
int nccl_waiting();

}  // namespace piper::standin
