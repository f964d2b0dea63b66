// The `replicate` directive: data parallelism over a device group. Its spec, and what it says of regions.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& replicate_spec();

// Says how the matched regions' gradients are reduced, and places the regions that no `place` matches. A region that
// lives on several groups, by microbatch, takes one replicate for each group, with equal settings. Errors: P0203,
// P0204, P0206, P0215 no group of a region is this one, P0217 two replicates on one group, or different settings.
Status resolve_replicate(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

// Regions on several devices, by microbatch, that no replicate names: their gradients are summed as its defaults say.
// For when the placement is settled.
void replicate_unasked(Resolution& draft);

}  // namespace piper::directives
