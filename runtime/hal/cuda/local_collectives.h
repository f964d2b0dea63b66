// Communication of ranks of one process on GPUs: copies from the sender's memory to the receiver's, on the sender's
// stream. A stream's wait for an event that was not recorded yet returns at once, therefore the submitting threads of
// both ranks meet at every transfer: the receiver offers its place and an event after which it is free, the sender
// enqueues the copy and answers with an event after which it is there. Level D2 of the proof permits it.
#pragma once

#include <memory>

#include "runtime/hal/collectives.h"
#include "runtime/hal/device.h"
#include "runtime/hal/position_group.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

// `transport`: of this rank between the ranks of the process, which meet on it. `device` makes the copies. Both outlive
// the result and its commands.
std::unique_ptr<Collectives> make_cuda_local_collectives(Transport& transport, Device& device, GroupKernels kernels);

}  // namespace piper::hal
