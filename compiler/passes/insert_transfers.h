// Replaces every data edge that crosses device groups by messages: one transfer node per (value, microbatch,
// receiving group), sent right after the producer. Position j of a larger group exchanges with position floor(j D1/D2)
// of a smaller one.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void insert_transfers(ir::Module& module);

}  // namespace piper::passes
