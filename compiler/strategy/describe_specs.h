// What is generated from directive specs: help text, reference page and the JSON Schema of a
// strategy file. Tests keep the checked-in files equal to these.
#pragma once

#include <span>
#include <string>

#include "compiler/strategy/directive_spec.h"

namespace piper::strategy {

// One directive as text for a terminal.
std::string help_text(const DirectiveSpec& spec);
// docs/directives.md.
std::string reference_page(std::span<const DirectiveSpec* const> specs);
// schemas/strategy.schema.json (JSON Schema 2020-12).
std::string json_schema(std::span<const DirectiveSpec* const> specs);

}  // namespace piper::strategy
