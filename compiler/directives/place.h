// The `place` directive: which device group runs which chunks. Its spec, and what it says of regions;
// messages where data cross groups are a later pass's (passes/insert_transfers.h).
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& place_spec();
// Claims the device group of every matched (region, microbatch). Errors: P0203, P0204 (filter), P0206, P0217 another
// place claims different devices.
Status resolve_place(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
