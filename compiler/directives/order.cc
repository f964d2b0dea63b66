#include "compiler/directives/order.h"

#include <algorithm>
#include <set>

#include "compiler/directives/select.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/filter.h"

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

namespace {

// The compute nodes one filter matches, as a set in DAG terms.
struct Matched {
  std::vector<ir::NodeId> nodes;
};

Result<Matched> match(const strategy::Filter& filter, const ir::Dag& dag, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Selection selection, select(dag, filter, diags));
  if (filter.pass && (*filter.pass == strategy::Pass::kBI || *filter.pass == strategy::Pass::kBW))
    return diags.error("P0299", filter.span) << "halves of a backward (BI, BW) are not carried out by this version";
  Matched matched;
  for (ir::ChunkId chunk : selection.chunks)
    for (ir::Pass pass : {ir::Pass::kForward, ir::Pass::kBackward}) {
      if (filter.pass && (*filter.pass == strategy::Pass::kF) != (pass == ir::Pass::kForward)) continue;
      for (int32_t m : selection.microbatches) {
        const ir::NodeId node = dag.compute[chunk.index][static_cast<size_t>(pass)][m];
        if (node.valid()) matched.nodes.push_back(node);
      }
    }
  if (matched.nodes.empty()) {
    auto error = diags.error("P0204", filter.span);
    error << "the filter " << strategy::to_string(filter) << " matches no compute";
    return error;
  }
  return matched;
}

// Whether data lead from `from` to `to`, through any nodes.
bool reaches(const Successors& next, uint32_t from, uint32_t to) {
  std::vector<bool> seen(next.size(), false);
  std::vector<uint32_t> stack = {from};
  while (!stack.empty()) {
    const uint32_t n = stack.back();
    stack.pop_back();
    if (n == to) return true;
    for (uint32_t s : next[n])
      if (!seen[s]) {
        seen[s] = true;
        stack.push_back(s);
      }
  }
  return false;
}

bool share_device(const ir::Dag& dag, ir::NodeId a, ir::NodeId b) {
  const auto& x = dag.groups[dag.nodes[a.index].group.index].ranks;
  const auto& y = dag.groups[dag.nodes[b.index].group.index].ranks;
  return std::any_of(x.begin(), x.end(), [&](int32_t r) { return std::find(y.begin(), y.end(), r) != y.end(); });
}

// Members with no member before them (or behind them): the ends of a group.
std::vector<ir::NodeId> ends(const Successors& next, const std::vector<ir::NodeId>& nodes, bool last) {
  if (nodes.size() == 1) return nodes;
  std::set<uint32_t> members, followed, preceded;
  for (ir::NodeId n : nodes) members.insert(n.index);
  for (ir::NodeId n : nodes)
    for (uint32_t s : next[n.index])
      if (members.count(s)) {
        followed.insert(n.index);
        preceded.insert(s);
      }
  std::vector<ir::NodeId> result;
  for (ir::NodeId n : nodes)
    if (!(last ? followed : preceded).count(n.index)) result.push_back(n);
  return result;
}

// A node outside of the set on a path between two members, or an invalid id.
ir::NodeId outsider(const Successors& next, const std::vector<ir::NodeId>& nodes) {
  if (nodes.size() < 2) return {};
  std::set<uint32_t> members, seen;
  for (ir::NodeId n : nodes) members.insert(n.index);
  for (ir::NodeId n : nodes)
    for (uint32_t s : next[n.index]) {
      if (members.count(s) || !seen.insert(s).second) continue;
      for (uint32_t member : members)
        if (reaches(next, s, member)) return ir::NodeId(s);
    }
  return {};
}

}  // namespace

Status apply_order(const OrderArgs& args, const strategy::Directive& directive, ir::Dag& dag, const Successors& next,
                   diag::Diagnostics& diags) {
  std::vector<std::vector<ir::NodeId>> groups;
  for (const std::vector<strategy::Filter>& group : args.filters) {
    std::vector<ir::NodeId> nodes;
    for (const strategy::Filter& filter : group) {
      PIPER_ASSIGN(Matched matched, match(filter, dag, diags));
      const ir::NodeId between = outsider(next, matched.nodes);
      if (between.valid())
        return diags.error("P0220", filter.span) << "the nodes of " << strategy::to_string(filter) << " are not convex: "
                                                 << dag.describe(between) << " runs between them";
      nodes.insert(nodes.end(), matched.nodes.begin(), matched.nodes.end());
    }
    groups.push_back(std::move(nodes));
  }
  std::vector<ir::Edge> added;
  for (size_t g = 0; g + 1 < groups.size(); ++g) {
    bool any = false;
    for (ir::NodeId before : ends(next, groups[g], true))
      for (ir::NodeId after : ends(next, groups[g + 1], false)) {
        if (!share_device(dag, before, after)) continue;
        any = true;
        added.push_back({before, after, ir::EdgeKind::kOrder, directive.made_by.empty() ? args.filters[g + 1][0].span : directive.span});
      }
    if (any) continue;
    if (!reaches(next, groups[g][0].index, groups[g + 1][0].index))
      return diags.error("P0234", args.filters[g + 1][0].span)
             << dag.describe(groups[g + 1][0]) << " shares no device with " << dag.describe(groups[g][0])
             << ", and data do not order them";
  }
  dag.edges.insert(dag.edges.end(), added.begin(), added.end());
  return Status();
}

Successors data_successors(const ir::Dag& dag) {
  Successors next(dag.nodes.size());
  for (const ir::Edge& e : dag.edges)
    if (e.kind == ir::EdgeKind::kData) next[e.from.index].push_back(e.to.index);
  return next;
}

}  // namespace piper::directives
