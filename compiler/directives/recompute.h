// The `recompute` directive: trades memory for a second forward. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/dag.h"
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

// Marks the matched passes in dag.recomputed, which has its size. Errors: P0203, P0204.
Status apply_recompute(const RecomputeArgs& args, ir::Dag& dag, diag::Diagnostics& diags);

}  // namespace piper::directives
