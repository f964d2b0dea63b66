// The `split` directive: microbatches. Its spec, and what it makes of the step.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

const strategy::DirectiveSpec& split_spec();

// Sets the number of microbatches of a step that nothing has cut yet. It is separate from the other directives'
// resolving: the model is bound to the samples of a microbatch before there are regions. Errors: P0206, P0224 a second
// split, or one of a part of the model.
Status resolve_split(const strategy::Directive& directive, ir::Step& step, diag::Diagnostics& diags);

}  // namespace piper::directives
