#include "compiler/directives/order.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "compiler/directives/alternate.h"
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
          "allowed where the data already imply it. Chunks of overlapping filters alternate where one waits for "
          "communication; a nested list, [[{...}, {...}]], runs exactly as it is written.\n\n"
          "The nodes that a filter matches must be convex: no path between two of them leaves the set.",
      .args =
          {
              {"filters", ArgKind::kFilterGroups, true, "", "the groups, each a list of filters", {}},
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

using strategy::Pass;

bool is_half(const std::optional<Pass>& pass) { return pass && (*pass == Pass::kBI || *pass == Pass::kBW); }

bool is_compute(const ir::Dag& dag, uint32_t node) {
  return std::holds_alternative<ir::ComputeNode>(dag.nodes[node].payload);
}

// Where a half that was asked for has no work of its own (an embedding has no input part), it is left out.
Result<std::vector<ir::NodeId>> match(const strategy::Filter& filter, const ir::Dag& dag, const Selector& selector,
                                      diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Selection selection, selector.select(filter, diags));
  std::vector<ir::NodeId> nodes;
  for (ir::ChunkId chunk : selection.chunks)
    for (size_t pass = 0; pass < ir::kNumPasses; ++pass) {
      if (!pass_matches(filter.pass, static_cast<ir::Pass>(pass))) continue;
      for (int32_t m : selection.microbatches) {
        const ir::NodeId node = dag.compute[chunk.index][pass][m];
        if (node.valid()) nodes.push_back(node);
      }
    }
  if (nodes.empty() && !is_half(filter.pass)) {
    auto error = diags.error("P0204", filter.span);
    error << "the filter " << strategy::to_string(filter) << " matches no compute";
    return error;
  }
  return nodes;
}

bool share_device(const ir::Dag& dag, ir::NodeId a, ir::NodeId b) {
  const ir::GroupId ga = dag.nodes[a.index].group, gb = dag.nodes[b.index].group;
  if (ga == gb) return true;
  const auto& x = dag.groups[ga.index].ranks;
  const auto& y = dag.groups[gb.index].ranks;
  return std::any_of(x.begin(), x.end(), [&](int32_t r) { return std::find(y.begin(), y.end(), r) != y.end(); });
}

// A set of nodes that is emptied at once: an order asks for thousands of small ones.
class NodeMarks {
 public:
  explicit NodeMarks(size_t nodes) : marked_in_(nodes, 0) {}
  void clear() { ++round_; }
  void mark(uint32_t node) { marked_in_[node] = round_; }
  bool marked(uint32_t node) const { return marked_in_[node] == round_; }

 private:
  std::vector<uint32_t> marked_in_;  // [node] the round in which it was marked
  uint32_t round_ = 1;
};
struct Marks {
  explicit Marks(const ir::Dag& dag) : members(dag.nodes.size()), inner(dag.nodes.size()) {}
  NodeMarks members, inner;
};

// Members with no member before them (or behind them): the ends of a group.
std::vector<ir::NodeId> ends(const DataPaths& paths, const ir::Dag& dag, const std::vector<ir::NodeId>& nodes,
                             bool last, Marks& marks) {
  if (nodes.size() == 1) return nodes;
  marks.members.clear();
  marks.inner.clear();
  for (ir::NodeId n : nodes) marks.members.mark(n.index);
  auto note = [&](uint32_t from, uint32_t to) {
    if (marks.members.marked(to)) marks.inner.mark(last ? from : to);
  };
  for (ir::NodeId n : nodes)
    for (uint32_t s : paths.next[n.index]) {
      note(n.index, s);
      if (!is_compute(dag, s))
        for (uint32_t t : paths.next[s]) note(n.index, t);
    }
  std::vector<ir::NodeId> result;
  for (ir::NodeId n : nodes)
    if (!marks.inner.marked(n.index) && is_compute(dag, n.index)) result.push_back(n);
  return result;
}

// A compute outside of the set on a path between two members, or an invalid id. Depth bounds the search.
ir::NodeId outsider(const DataPaths& paths, const ir::Dag& dag, const std::vector<ir::NodeId>& nodes,
                    NodeMarks& members) {
  if (nodes.size() < 2) return {};
  members.clear();
  int32_t deepest = 0;
  for (ir::NodeId n : nodes) {
    members.mark(n.index);
    deepest = std::max(deepest, paths.depth[n.index]);
  }
  // A path that leaves the set carries the first compute outside of it.
  std::map<uint32_t, uint32_t> left_by;
  std::vector<std::pair<uint32_t, uint32_t>> stack;  // (node, outsider or kNone)
  constexpr uint32_t kNone = 0xffffffffu;
  for (ir::NodeId n : nodes)
    for (uint32_t s : paths.next[n.index])
      if (!members.marked(s)) stack.emplace_back(s, kNone);
  while (!stack.empty()) {
    auto [n, by] = stack.back();
    stack.pop_back();
    if (members.marked(n)) {
      if (by != kNone) return ir::NodeId(by);
      continue;
    }
    if (paths.depth[n] >= deepest) continue;
    if (by == kNone && is_compute(dag, n)) by = n;
    if (!left_by.emplace(n, by).second) continue;
    for (uint32_t s : paths.next[n]) stack.emplace_back(s, by);
  }
  return {};
}

// Whether data lead from `from` to `to`, through any nodes.
bool reaches(const DataPaths& paths, uint32_t from, uint32_t to) {
  std::vector<bool> seen(paths.next.size(), false);
  std::vector<uint32_t> stack = {from};
  while (!stack.empty()) {
    const uint32_t n = stack.back();
    stack.pop_back();
    if (n == to) return true;
    for (uint32_t s : paths.next[n])
      if (!seen[s] && paths.depth[s] <= paths.depth[to]) {
        seen[s] = true;
        stack.push_back(s);
      }
  }
  return false;
}

// What a group of an `order` has on one device group, ready to be chained to what stands before and behind it there.
struct Part {
  ir::GroupId devices;
  std::vector<ir::NodeId> first, last;
};
using Group = std::vector<Part>;

std::map<ir::GroupId, std::vector<ir::NodeId>> by_devices(const ir::Dag& dag, const std::vector<ir::NodeId>& nodes) {
  std::map<ir::GroupId, std::vector<ir::NodeId>> result;
  for (ir::NodeId n : nodes) result[dag.nodes[n.index].group].push_back(n);
  return result;
}

// Chains the nodes of a slot where they share a device.
Group chain_slot(ir::Dag& dag, const std::vector<ir::NodeId>& sequence, const diag::Span& span) {
  std::map<ir::GroupId, ir::NodeId> latest;
  for (ir::NodeId n : sequence) {
    for (const auto& [devices, before] : latest)
      if (share_device(dag, before, n)) dag.add_edge(before, n, ir::EdgeKind::kOrder, span);
    latest[dag.nodes[n.index].group] = n;
  }
  Group group;
  for (const auto& [devices, nodes] : by_devices(dag, sequence))
    group.push_back({devices, {nodes.front()}, {nodes.back()}});
  return group;
}

}  // namespace

Status find_split_backwards(const OrderArgs& args, const ir::Dag& dag, const Selector& selector,
                            std::vector<HalfNames>& halves, diag::Diagnostics& diags) {
  halves.resize(dag.chunks.size() * dag.num_microbatches);
  for (const auto& group : args.filters)
    for (const strategy::Filter& filter : group) {
      if (!is_half(filter.pass)) continue;
      PIPER_ASSIGN(const Selection selection, selector.select(filter, diags));
      for (ir::ChunkId chunk : selection.chunks)
        for (int32_t m : selection.microbatches) {
          HalfNames& names = halves[chunk.index * dag.num_microbatches + m];
          (*filter.pass == Pass::kBI ? names.input : names.weight) = filter.span;
          (*filter.pass == Pass::kBI ? names.has_input : names.has_weight) = true;
        }
    }
  return Status();
}

Result<std::vector<bool>> chunks_to_split(const std::vector<HalfNames>& halves, const ir::Dag& dag,
                                          diag::Diagnostics& diags) {
  std::vector<bool> split(dag.chunks.size(), false);
  for (size_t c = 0; c < dag.chunks.size(); ++c)
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      if (halves.empty()) break;
      const HalfNames& names = halves[c * dag.num_microbatches + m];
      if (names.has_input != names.has_weight) {
        auto error = diags.error("P0222", names.has_input ? names.input : names.weight);
        error << (names.has_input ? "BI" : "BW") << " of " << dag.chunks[c].name << ", microbatch " << m
              << ", is ordered, its " << (names.has_input ? "BW" : "BI") << " is not";
        error.help("name both halves, BI before BW");
        return error;
      }
      if (names.has_input) split[c] = true;
    }
  return split;
}

Status apply_order(const OrderArgs& args, const strategy::Directive& directive, ir::Dag& dag, const DataPaths& paths,
                   const Selector& selector, diag::Diagnostics& diags) {
  std::vector<Group> groups;
  std::vector<size_t> source;  // [group] -> position in args.filters
  Marks marks(dag);
  for (size_t g = 0; g < args.filters.size(); ++g) {
    std::vector<std::vector<ir::NodeId>> members;
    for (const strategy::Filter& filter : args.filters[g]) {
      PIPER_ASSIGN(std::vector<ir::NodeId> nodes, match(filter, dag, selector, diags));
      const ir::NodeId between = outsider(paths, dag, nodes, marks.members);
      if (between.valid())
        return diags.error("P0220", filter.span)
               << "the nodes of " << strategy::to_string(filter) << " are not convex: " << dag.describe(between)
               << " runs between them";
      if (!nodes.empty()) members.push_back(std::move(nodes));
    }
    if (members.empty()) continue;
    Group group;
    if (members.size() == 1) {
      for (const auto& [devices, nodes] : by_devices(dag, members[0])) {
        Part part{devices, ends(paths, dag, nodes, false, marks), ends(paths, dag, nodes, true, marks)};
        if (!part.first.empty()) group.push_back(std::move(part));
      }
    } else {
      const bool fixed = args.filters[g][0].in_sequence;
      group = chain_slot(dag, fixed ? one_after_the_other(paths, dag, members) : alternate(paths, dag, members),
                         directive.made_by.empty() ? args.filters[g][0].span : directive.span);
    }
    if (group.empty()) continue;
    groups.push_back(std::move(group));
    source.push_back(g);
  }
  // Device group -> the last of this order there, and the order's group that it is of.
  std::map<ir::GroupId, std::pair<const Part*, size_t>> latest;
  for (size_t g = 0; g < groups.size(); ++g) {
    const diag::Span span = args.filters[source[g]][0].span;
    bool any = g == 0;
    for (const Part& part : groups[g])
      for (const auto& [devices, before] : latest) {
        if (!share_device(dag, before.first->last[0], part.first[0])) continue;
        any |= before.second + 1 == g;
        for (ir::NodeId from : before.first->last)
          for (ir::NodeId to : part.first)
            dag.add_edge(from, to, ir::EdgeKind::kOrder, directive.made_by.empty() ? span : directive.span);
      }
    for (const Part& part : groups[g]) latest[part.devices] = {&part, g};
    if (any) continue;
    const ir::NodeId before = groups[g - 1][0].last[0], after = groups[g][0].first[0];
    if (!reaches(paths, before.index, after.index))
      return diags.error("P0234", span) << dag.describe(after) << " shares no device with " << dag.describe(before)
                                        << ", and data do not order them";
  }
  return Status();
}

DataPaths data_paths(const ir::Dag& dag) {
  DataPaths paths;
  paths.next = FlatLists<uint32_t>(dag.nodes.size(), [&](const auto& add) {
    for (const ir::Edge& e : dag.edges)
      if (e.kind == ir::EdgeKind::kData) add(e.from.index, e.to.index);
  });
  paths.depth.assign(dag.nodes.size(), 0);
  std::vector<uint32_t> waiting(dag.nodes.size(), 0);
  for (const ir::Edge& e : dag.edges)
    if (e.kind == ir::EdgeKind::kData) ++waiting[e.to.index];
  std::vector<uint32_t> ready;
  for (uint32_t n = 0; n < waiting.size(); ++n)
    if (waiting[n] == 0) ready.push_back(n);
  while (!ready.empty()) {
    const uint32_t n = ready.back();
    ready.pop_back();
    for (uint32_t s : paths.next[n]) {
      paths.depth[s] = std::max(paths.depth[s], paths.depth[n] + 1);
      if (--waiting[s] == 0) ready.push_back(s);
    }
  }
  return paths;
}

}  // namespace piper::directives
