#include "compiler/passes/add_order_edges.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/analysis/alternate.h"
#include "compiler/analysis/updated_statistic.h"

namespace piper::passes {
namespace {

using ir::NodeId;

// Where a half that was asked for has no work of its own (an embedding has no input part), it is left out, and so is
// what a schedule names before it is known: the backward of a stage that trains nothing.
Result<std::vector<NodeId>> match(const ir::OrderMember& member, bool made_by_schedule, const ir::Module& module,
                                  diag::Diagnostics& diags) {
  std::vector<NodeId> nodes;
  for (ir::ChunkId chunk : member.chunks)
    for (ir::Phase phase : member.phases)
      for (int32_t m : member.microbatches) {
        const NodeId node = module.dag.node_of(chunk, phase, m);
        if (node.valid()) nodes.push_back(node);
      }
  if (nodes.empty() && !member.half && !made_by_schedule) {
    auto error = diags.error("P0204", member.span);
    error << "the filter " << member.text << " matches no compute";
    return error;
  }
  return nodes;
}

bool share_device(const ir::Module& module, NodeId a, NodeId b) {
  const ir::GroupId ga = module.dag.nodes[a.index].group, gb = module.dag.nodes[b.index].group;
  if (ga == gb) return true;
  const auto& x = module.distribution.ranks(ga);
  const auto& y = module.distribution.ranks(gb);
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
  explicit Marks(const ir::Module& module) : members(module.dag.nodes.size()), inner(module.dag.nodes.size()) {}
  NodeMarks members, inner;
};

// Computes with no compute of the members before them, or with none after them: the ends of a group. Exchanges may come
// before the first and after the last.
std::vector<NodeId> ends(const analysis::DataPaths& paths, const ir::Module& module, const std::vector<NodeId>& nodes,
                         bool last, Marks& marks) {
  if (nodes.size() == 1) return nodes;
  marks.members.clear();
  marks.inner.clear();
  for (NodeId n : nodes) marks.members.mark(n.index);
  auto note = [&](uint32_t from, uint32_t to) {
    if (marks.members.marked(to) && analysis::is_compute(module.dag, from) && analysis::is_compute(module.dag, to))
      marks.inner.mark(last ? from : to);
  };
  for (NodeId n : nodes)
    for (uint32_t s : paths.next[n.index]) {
      note(n.index, s);
      if (!analysis::is_compute(module.dag, s))
        for (uint32_t t : paths.next[s]) note(n.index, t);
    }
  std::vector<NodeId> result;
  for (NodeId n : nodes)
    if (!marks.inner.marked(n.index) && analysis::is_compute(module.dag, n.index)) result.push_back(n);
  return result;
}

// A compute outside of the set on a path between two members, or an invalid id. Depth bounds the search.
NodeId outsider(const analysis::DataPaths& paths, const ir::Module& module, const std::vector<NodeId>& nodes,
                NodeMarks& members) {
  if (nodes.size() < 2) return {};
  members.clear();
  int32_t deepest = 0;
  for (NodeId n : nodes) {
    members.mark(n.index);
    deepest = std::max(deepest, paths.depth[n.index]);
  }
  // A path that leaves the set carries the first compute outside of it.
  std::map<uint32_t, uint32_t> left_by;
  std::vector<std::pair<uint32_t, uint32_t>> stack;  // (node, outsider or kNone)
  constexpr uint32_t kNone = 0xffffffffu;
  for (NodeId n : nodes)
    for (uint32_t s : paths.next[n.index])
      if (!members.marked(s)) stack.emplace_back(s, kNone);
  while (!stack.empty()) {
    auto [n, by] = stack.back();
    stack.pop_back();
    if (members.marked(n)) {
      if (by != kNone) return NodeId(by);
      continue;
    }
    if (paths.depth[n] >= deepest) continue;
    if (by == kNone && analysis::is_compute(module.dag, n)) by = n;
    if (!left_by.emplace(n, by).second) continue;
    for (uint32_t s : paths.next[n]) stack.emplace_back(s, by);
  }
  return {};
}

// Whether data lead from `from` to `to`, through any nodes.
bool reaches(const analysis::DataPaths& paths, uint32_t from, uint32_t to) {
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

// What a group of an `order` has on one device group, ready to be chained to what is before and after it there.
struct Part {
  ir::GroupId devices;
  std::vector<NodeId> first, last;
};
using Group = std::vector<Part>;

std::map<ir::GroupId, std::vector<NodeId>> by_devices(const ir::Module& module, const std::vector<NodeId>& nodes) {
  std::map<ir::GroupId, std::vector<NodeId>> result;
  for (NodeId n : nodes) result[module.dag.nodes[n.index].group].push_back(n);
  return result;
}

// Chains the nodes of a slot where they share a device.
Group chain_slot(const ir::Module& module, const std::vector<NodeId>& sequence, const diag::Span& span,
                 std::vector<ir::Edge>& edges) {
  std::map<ir::GroupId, NodeId> latest;
  for (NodeId n : sequence) {
    for (const auto& [devices, before] : latest)
      if (share_device(module, before, n)) edges.push_back({before, n, ir::EdgeKind::kOrder, span});
    latest[module.dag.nodes[n.index].group] = n;
  }
  Group group;
  for (const auto& [devices, nodes] : by_devices(module, sequence))
    group.push_back({devices, {nodes.front()}, {nodes.back()}});
  return group;
}

// Checks the order and collects its edges.
Status find_edges(const ir::Order& order, const ir::Module& module, const analysis::DataPaths& paths,
                  std::vector<ir::Edge>& edges, diag::Diagnostics& diags) {
  std::vector<Group> groups;
  std::vector<size_t> source;  // [group] -> position in order.slots
  Marks marks(module);
  for (size_t g = 0; g < order.slots.size(); ++g) {
    std::vector<std::vector<NodeId>> members;
    for (const ir::OrderMember& member : order.slots[g].members) {
      PIPER_ASSIGN(std::vector<NodeId> nodes, match(member, order.made_at.has_value(), module, diags));
      const NodeId between = outsider(paths, module, nodes, marks.members);
      if (between.valid())
        return diags.error("P0220", member.span)
               << "the nodes of " << member.text << " are not convex: " << module.describe(between)
               << " runs between them";
      if (!nodes.empty()) members.push_back(std::move(nodes));
    }
    if (members.empty()) continue;
    Group group;
    if (members.size() == 1) {
      for (const auto& [devices, nodes] : by_devices(module, members[0])) {
        Part part{devices, ends(paths, module, nodes, false, marks), ends(paths, module, nodes, true, marks)};
        if (!part.first.empty()) group.push_back(std::move(part));
      }
    } else {
      const bool fixed = order.slots[g].in_sequence;
      group = chain_slot(module,
                         fixed ? analysis::one_after_the_other(paths, module.dag, members)
                               : analysis::alternate(paths, module.dag, members),
                         order.made_at.value_or(order.slots[g].members[0].span), edges);
    }
    if (group.empty()) continue;
    groups.push_back(std::move(group));
    source.push_back(g);
  }
  // Device group -> the last of this order there, and the order's group that it is of.
  std::map<ir::GroupId, std::pair<const Part*, size_t>> latest;
  for (size_t g = 0; g < groups.size(); ++g) {
    const diag::Span span = order.slots[source[g]].members[0].span;
    bool any = g == 0;
    for (const Part& part : groups[g])
      for (const auto& [devices, before] : latest) {
        if (!share_device(module, before.first->last[0], part.first[0])) continue;
        any |= before.second + 1 == g;
        for (NodeId from : before.first->last)
          for (NodeId to : part.first) edges.push_back({from, to, ir::EdgeKind::kOrder, order.made_at.value_or(span)});
      }
    for (const Part& part : groups[g]) latest[part.devices] = {&part, g};
    if (any) continue;
    const NodeId before = groups[g - 1][0].last[0], after = groups[g][0].first[0];
    if (!reaches(paths, before.index, after.index))
      return diags.error("P0234", span) << module.describe(after) << " runs on other devices than "
                                        << module.describe(before) << ", and no data dependence orders them";
  }
  return Status();
}

// Each microbatch updates a chunk's running statistics after the one before it. These edges have no line of the
// strategy.
void order_statistics(const ir::Module& module, std::vector<ir::Edge>& edges) {
  std::set<ir::ChunkId> chunks;
  for (size_t i = 0; i < module.graph().num_ops(); ++i) {
    const ir::Op& op = module.graph().op(ir::OpId(i));
    if (analysis::updated_statistic(module.graph(), op).valid()) chunks.insert(op.chunk);
  }
  for (const ir::ChunkId chunk : chunks) {
    std::map<ir::GroupId, NodeId> latest;
    const auto microbatches = static_cast<int32_t>(module.distribution.chunks[chunk.index].groups.size());
    for (int32_t m = 0; m < microbatches; ++m) {
      const NodeId node = module.dag.node_of(chunk, ir::Phase::kForward, m);
      if (!node.valid()) continue;
      const auto [before, first] = latest.try_emplace(module.dag.nodes[node.index].group, node);
      if (!first) edges.push_back({before->second, node, ir::EdgeKind::kOrder, {}});
      before->second = node;
    }
  }
}

}  // namespace

Status add_order_edges(ir::Module& module, diag::Diagnostics& diags) {
  std::vector<ir::Edge> edges;
  order_statistics(module, edges);
  Status first;
  const analysis::DataPaths paths =
      module.schedule.orders.empty() ? analysis::DataPaths() : analysis::data_paths(module.dag);
  for (const ir::Order& order : module.schedule.orders) {
    Status status = find_edges(order, module, paths, edges, diags);
    if (!status.ok() && first.ok()) first = std::move(status);
  }
  PIPER_RETURN_IF_ERROR(std::move(first));
  module.dag.edges.insert(module.dag.edges.end(), edges.begin(), edges.end());
  return Status();
}

}  // namespace piper::passes
