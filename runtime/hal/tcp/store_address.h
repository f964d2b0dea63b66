// Where the processes of a run meet: the TCP store that carries their control messages. Read off a launcher's variables
// (bootstrap/rendezvous.h), used by the channel over it (tcp_store_channel.h).
#pragma once

#include <cstdint>
#include <string>

namespace piper::hal {

struct StoreAddress {
  std::string host;  // loopback where all processes are on one node
  uint16_t port = 0;
  // What this run and no other is called, e.g. "slurm.17.0". At most kMaxRunIdBytes.
  std::string run_id;
  // How often the launcher has started this run again. Processes of different attempts do not meet.
  int32_t attempt = 0;
  // Whether rank 0 must be reachable from other machines.
  bool several_nodes = false;
  // The launcher serves the store, as torchrun does; otherwise rank 0 serves it.
  bool served_by_launcher = false;
  // For rank 0: a socket that listens on `port` already, to be taken over; -1: none.
  int listening = -1;

  static constexpr size_t kMaxRunIdBytes = 256;
};

}  // namespace piper::hal
