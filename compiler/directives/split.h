// The `split` directive: microbatches. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct SplitArgs {
  strategy::Filter filter;
  std::string dim_name = "MB";
  int64_t num_microbatches;
};
const strategy::DirectiveSpec& split_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<SplitArgs> read_split(const strategy::Directive& directive);

}  // namespace piper::directives
