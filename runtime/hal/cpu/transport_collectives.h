// Communication of CPU ranks: messages of a Transport, and groups made of them (position_group.h), which give the same
// bits on every transport.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/hal/collectives.h"
#include "runtime/hal/cpu/position_sum.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

// A group of these ranks, of which this one is a member; `channel` and the next one are its own. `transport` outlives
// it and its commands.
std::unique_ptr<Group> make_transport_group(Transport& transport, std::vector<int32_t> ranks, int32_t channel,
                                            AddF32 add_f32);
// `transport` outlives the result and its commands.
std::unique_ptr<Collectives> make_transport_collectives(Transport& transport, AddF32 add_f32);

}  // namespace piper::hal
