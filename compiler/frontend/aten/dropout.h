// The counter-based dropout of a module: its key is the hash of the module path and of the ordinal
// among that module's dropouts, so that a mask does not depend on strategy, rank or import route.
#pragma once

#include "compiler/frontend/aten/call.h"

namespace piper::frontend::aten {

// x with elements dropped with probability p. The layout attributes take axis 0 as the batch; the
// pass that tracks the batch axis corrects them.
ValueId dropped(Call& c, ValueId x, double p);

}  // namespace piper::frontend::aten
