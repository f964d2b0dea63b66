// The `order` directive: what runs after what on shared devices. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct OrderArgs {
  strategy::FilterGroups filters;
};
const strategy::DirectiveSpec& order_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<OrderArgs> read_order(const strategy::Directive& directive);

}  // namespace piper::directives
