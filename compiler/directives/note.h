// The `note` directive: a comment for whoever reads the plan. Its spec, and where it is kept.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& note_spec();

// Adds the text to the provenance, and its entry to ChunkProperties::notes of the matched regions. Errors: P0203,
// P0204, P0206.
Status resolve_note(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
