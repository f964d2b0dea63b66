// Transfers between GPUs of one process, as commands. Used by local_collectives.cc.
#pragma once

#include <memory>
#include <vector>

#include "runtime/hal/position_group.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

// Transfers that are issued together: all receives are offered before the first send is waited for. At most one per
// direction, peer and channel. R0407. `transport` outlives the command, and what the other ranks run: they may wait for
// an event of this command after this rank has ended.
MadeCommand local_exchange(Transport& transport, const std::vector<DeviceTransfer>& transfers);

}  // namespace piper::hal
