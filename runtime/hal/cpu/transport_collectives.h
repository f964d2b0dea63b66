// Communication of CPU ranks: messages of a Transport, and collectives written on them that give the same bits on every
// transport; sums are added in the order of the positions (position_sum.h).
#pragma once

#include <memory>

#include "runtime/hal/collectives.h"
#include "runtime/hal/cpu/position_sum.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

// `transport` outlives the result and its commands.
std::unique_ptr<Collectives> make_transport_collectives(Transport& transport, AddF32 add_f32);

}  // namespace piper::hal
