// The `order` directive: what runs after what on shared devices. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/dag.h"
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

// Adds order edges from the last computes of each group to the first of the next. Errors: P0203, P0204, P0220 a group that is not convex,
// P0234 groups without a common device that data do not order, P0299 halves of a backward.
// `next` holds the data successors of every node: made once, since orders add no data edges.
using Successors = std::vector<std::vector<uint32_t>>;
Successors data_successors(const ir::Dag& dag);
Status apply_order(const OrderArgs& args, const strategy::Directive& directive, ir::Dag& dag, const Successors& next,
                   diag::Diagnostics& diags);

}  // namespace piper::directives
