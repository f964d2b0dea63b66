// Derives the backward of every variant (autodiff/autodiff.h). Errors: P0420, P0421, P0422.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

Status add_backward(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
