// Small collectives of the host side, for start-up and the end of a run: on exchanges, so every
// backend has them. All ranks call them in the same order; each sends about log2(ranks) messages, of memory that is not
// the caller's. Not for steps: they allocate.
#pragma once

#include <string>
#include <vector>

#include "runtime/hal/transport.h"

namespace piper::hal {

// Every rank's bytes, by rank. R0303: they are more than 4 GiB together.
Result<std::vector<std::string>> host_allgather(Transport& transport, const std::string& mine,
                                                const WaitControl& control);
Status host_barrier(Transport& transport, const WaitControl& control);
// From one rank to another, in messages of 16 MiB.
Status host_send(Transport& transport, int32_t peer, const void* data, int64_t bytes, const WaitControl& control);
Status host_receive(Transport& transport, int32_t peer, void* data, int64_t bytes, const WaitControl& control);

}  // namespace piper::hal
