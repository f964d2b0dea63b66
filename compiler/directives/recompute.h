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

// Marks the matched chunks in `chunks`, [chunk]. Errors: P0203, P0204, P0299 a filter that names some of the microbatches only.
Status apply_recompute(const RecomputeArgs& args, const ir::Dag& dag, std::vector<bool>& chunks, diag::Diagnostics& diags);

}  // namespace piper::directives
