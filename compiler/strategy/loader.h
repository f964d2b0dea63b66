// Reads a strategy file (YAML 1.2 core schema, or JSON; the prototype's bare JSON list too) into a
// Strategy. Every key and type is checked; unknown and duplicate keys, wrong types and values are
// diagnostics with a caret (P01xx, P02xx), collected up to 20 per file, never exceptions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"

namespace piper::strategy {

// overrides: "KEY=VALUE" of --set, dotted path, value read as YAML; they win over the file.
Result<Strategy> load_strategy(const std::string& path, const std::vector<std::string>& overrides,
                               std::span<const DirectiveSpec* const> specs, diag::Diagnostics& diags);
// The same from text; `name` is shown in diagnostics.
Result<Strategy> parse_strategy(const std::string& name, const std::string& text,
                                const std::vector<std::string>& overrides, std::span<const DirectiveSpec* const> specs,
                                diag::Diagnostics& diags);

}  // namespace piper::strategy
