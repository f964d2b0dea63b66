// The rules of the lay-out of state: there are none yet.
#include "compiler/ir/verify_parts.h"

namespace piper::ir {

Status verify_state(const Module&) { return {}; }

}  // namespace piper::ir
