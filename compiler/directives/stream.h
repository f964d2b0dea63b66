// The `stream` directive: named compute streams. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

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

}  // namespace piper::directives
