// The `stream` directive: named compute streams. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/dag.h"
#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct StreamArgs {
  strategy::Filter filter;
  std::string name;
};
const strategy::DirectiveSpec& stream_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<StreamArgs> read_stream(const strategy::Directive& directive);

// Sets dag.streams_of_compute of the matched computes. Errors: P0203, P0204 (also BI or BW where no backward is split),
// P0217 two streams for one compute.
Status apply_stream(const StreamArgs& args, const strategy::Directive& directive, ir::Dag& dag,
                    diag::Diagnostics& diags);

}  // namespace piper::directives
