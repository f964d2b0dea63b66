// The UCX transport: one process per rank, without MPI. Inside a node messages go through shared memory, between nodes
// by what UCX finds best (UCX_TLS and UCX_NET_DEVICES choose); where all ranks are on one node, nothing listens on a
// network. The ranks meet over a control channel, which hands the addresses round. One progress thread makes every
// UCX call; streams hand it their exchanges and sleep, and so does it, on a descriptor of the library. Built without
// UCX, join() is an error.
#pragma once

#include <memory>

#include "runtime/hal/control_channel.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

class UcxTransport : public Transport {
 public:
  enum class Reach : uint8_t { kOneNode, kSeveralNodes };
  // Every rank of `control` calls it. R0104: built without UCX. R0303: UCX does not start; what the control channel may
  // return.
  static Result<std::unique_ptr<UcxTransport>> join(ControlChannel& control, Reach reach, const WaitControl& wait);
  // The library catches signals of crashes when it is loaded; this gives them back. Once, at the program's start.
  static void leave_signals_alone();

  // What waits for a process that has ended fails that much later: a launcher that ends all ranks because one has
  // failed comes first, and a failure that only follows from another one is not reported.
  static constexpr std::chrono::milliseconds kFarewell{1000};
};

}  // namespace piper::hal
