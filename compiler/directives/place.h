// The `place` directive: which device group runs which chunks. Its spec and typed arguments;
// communication where data cross groups is a later phase.
#pragma once

#include <string>
#include <vector>

#include "compiler/directives/placement.h"
#include "compiler/ir/dag.h"
#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct PlaceArgs {
  strategy::Filter filter;
  strategy::Devices devices;
  std::string stream = "pp";
};
const strategy::DirectiveSpec& place_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<PlaceArgs> read_place(const strategy::Directive& directive);

// Claims the device group of every matched (chunk, microbatch). Errors: P0203, P0204 (filter), P0217 another place
// claims different devices.
Status apply_place(const PlaceArgs& args, const strategy::Directive& directive, const ir::Dag& dag,
                   Placement& placement, diag::Diagnostics& diags);

}  // namespace piper::directives
