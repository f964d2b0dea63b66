// The `order` directive: what runs after what on shared devices. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/directives/select.h"
#include "compiler/ir/dag.h"
#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/flat_lists.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct OrderArgs {
  strategy::FilterGroups filters;
};
const strategy::DirectiveSpec& order_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<OrderArgs> read_order(const strategy::Directive& directive);

// Which halves of a backward the orders name, per (chunk, microbatch): where they name any, the chunk's backward is
// split.
struct HalfNames {
  bool has_input = false, has_weight = false;
  diag::Span input, weight;
};
// Adds what one `order` names to `halves`, [chunk * num_microbatches + microbatch].
Status find_split_backwards(const OrderArgs& args, const ir::Dag& dag, const Selector& selector,
                            std::vector<HalfNames>& halves, diag::Diagnostics& diags);
// [chunk] Error P0222: one half is named without the other.
Result<std::vector<bool>> chunks_to_split(const std::vector<HalfNames>& halves, const ir::Dag& dag,
                                          diag::Diagnostics& diags);

// Data edges by node, and each node's depth (longest path from a source), which bounds searches. Made once: orders add
// no data edges.
struct DataPaths {
  FlatLists<uint32_t> next;
  std::vector<int32_t> depth;
};
DataPaths data_paths(const ir::Dag& dag);

// Adds order edges from the last computes of each group to the first of the next, and within a group of several filters
// from chunk to chunk of the alternation. Errors: P0203, P0204, P0220 a group that is not convex, P0234 groups without
// a common device that data do not order.
Status apply_order(const OrderArgs& args, const strategy::Directive& directive, ir::Dag& dag, const DataPaths& paths,
                   const Selector& selector, diag::Diagnostics& diags);

}  // namespace piper::directives
