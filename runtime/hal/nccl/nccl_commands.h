// Calls of NCCL as commands of a queue. Used by nccl_collectives.cc.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/collectives.h"
#include "runtime/hal/device.h"
#include "runtime/hal/nccl/nccl_communicators.h"
#include "runtime/hal/position_group.h"

namespace piper::hal {

// The communicator of a command, and all of the rank's: a thread that waits checks every one for errors. Both outlive
// the commands.
struct NcclPlace {
  NcclCommunicators* all = nullptr;
  NcclCommunicator* on = nullptr;
};

// Transfers as one group of sends and receives. The channels are not looked at: messages from one member to another
// match in the order in which they are issued. R0404: a peer that is no member.
MadeCommand nccl_transfers(NcclPlace place, const std::vector<DeviceTransfer>& transfers);
// NCCL's own sums. R0404: NCCL does not add this type.
MadeCommand nccl_all_reduce(NcclPlace place, const SumOperands& operands);
MadeCommand nccl_reduce_scatter(NcclPlace place, const SumOperands& operands);
MadeCommand nccl_all_gather(NcclPlace place, const GatherOperands& operands);
// Rows that are counted when it executes: the host reads both arrays of counts, then sends and receives exactly those.
// R0405, R0407. R0304 when it is issued: counts that do not fit.
MadeCommand nccl_counted_exchange(NcclPlace place, Device& device, const ExchangeOperands& operands);

}  // namespace piper::hal
