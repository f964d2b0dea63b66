#include "compiler/directives/order.h"

#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& order_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "order",
      .summary = "runs groups of nodes one after the other",
      .doc =
          "The groups run in the order of the list on the devices they share; filters in one group overlap. "
          "Naming BI or BW splits the matched backward; BI comes before its BW. Order across devices is "
          "allowed where the data already imply it.\n\n"
          "The nodes that a filter matches must be convex: no path between two of them leaves the set.",
      .args =
          {
              {"filters", ArgKind::kFilterGroups, true, "",
               "the groups, each a list of filters", {}},
          },
      .example = "{op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: 0, PASS: B}]]}",
      .filter_forbids = {},
  };
  return spec;
}

Result<OrderArgs> read_order(const strategy::Directive& directive) {
  OrderArgs args;
  PIPER_ASSIGN(args.filters, strategy::required_arg<strategy::FilterGroups>(directive, "filters"));
  return args;
}

}  // namespace piper::directives
