// The pass that marks the parameters which an optimizer of whole matrices updates, and looks at which ones decay.
#pragma once

#include "compiler/driver/compilation.h"

namespace piper::driver {

// Marks them in every variant, where the strategy has such an optimizer. Errors: P0251 where it has nothing to update
// or `except` names what it would not update; P0252 on devices that lack it. Those of check_decay().
Status choose_rules(Compilation& c, diag::Diagnostics& diags);

}  // namespace piper::driver
