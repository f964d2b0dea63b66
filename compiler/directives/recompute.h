// The `recompute` directive: trades memory for a second forward. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct RecomputeArgs {
  strategy::Filter filter;
};
const strategy::DirectiveSpec& recompute_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<RecomputeArgs> read_recompute(const strategy::Directive& directive);

}  // namespace piper::directives
