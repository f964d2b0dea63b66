#include "compiler/passes/order_nodes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "schemas/base/flat_lists.h"

namespace piper::passes {
namespace {

using ir::NodeId;

// Ranks with the same memberships behave alike: one lane of time for each such class.
std::vector<std::vector<uint32_t>> classes_of_groups(const ir::Module& module) {
  std::map<int32_t, std::vector<uint32_t>> memberships;
  for (size_t g = 0; g < module.distribution.groups.size(); ++g)
    for (int32_t r : module.distribution.groups[g].ranks) memberships[r].push_back(static_cast<uint32_t>(g));
  std::map<std::vector<uint32_t>, uint32_t> class_of;
  std::vector<std::vector<uint32_t>> classes(module.distribution.groups.size());
  for (const auto& [rank, member] : memberships) {
    const uint32_t id = class_of.emplace(member, static_cast<uint32_t>(class_of.size())).first->second;
    for (uint32_t g : member)
      if (classes[g].empty() || std::find(classes[g].begin(), classes[g].end(), id) == classes[g].end())
        classes[g].push_back(id);
  }
  return classes;
}

struct Cost {
  int64_t time = 0;
  bool occupies = true;  // takes the devices of its group
  int32_t rank = 0;      // at equal readiness: lower first
  int32_t microbatch = std::numeric_limits<int32_t>::max();
  int32_t pass = 0;
};

Cost cost_of(const ir::Module& module, const ir::NodePayload& payload) {
  struct Visitor {
    const ir::Module& module;
    Cost operator()(const ir::ComputeNode& n) const {
      switch (n.phase) {
        case ir::Phase::kCount:
        case ir::Phase::kCountFinish: return {0, true, 1, n.microbatch, 0};
        case ir::Phase::kForward: return {10, true, 2, n.microbatch, 1};
        case ir::Phase::kBackward:
          return {module.distribution.backward_split(n.chunk) ? 10 : 20, true, 2, n.microbatch, 0};
        case ir::Phase::kBackwardWeight: return {10, true, 2, n.microbatch, 2};
      }
      return {};
    }
    Cost operator()(const ir::CollectiveNode& n) const {
      const auto* value = std::get_if<ir::ValueOperand>(&n.what);
      return {0, false, 0, value != nullptr ? value->at.microbatch : 0, 0};
    }
    Cost operator()(const ir::TransferNode&) const { return {0, false, 0, 0, 0}; }
    Cost operator()(const ir::StepNode& n) const {
      const bool computes_wait = std::holds_alternative<ir::FinishCounts>(n.work);
      return {0, true, computes_wait ? 1 : 3, std::numeric_limits<int32_t>::max(), 0};
    }
    Cost operator()(const ir::UpdateNode&) const { return {1, true, 4, std::numeric_limits<int32_t>::max(), 0}; }
  };
  return std::visit(Visitor{module}, payload);
}

// `waiting`: [node] how many edges lead to it from nodes that have no place in the order.
Status report_cycle(const ir::Module& module, const std::vector<uint32_t>& waiting, diag::Diagnostics& diags) {
  // Every node left has a predecessor among those left: walk back until a node repeats.
  std::vector<std::vector<const ir::Edge*>> into(module.dag.nodes.size());
  for (const ir::Edge& e : module.dag.edges)
    if (waiting[e.from.index] > 0 && waiting[e.to.index] > 0) into[e.to.index].push_back(&e);
  uint32_t at = 0;
  while (waiting[at] == 0 || into[at].empty()) ++at;
  std::vector<int64_t> seen(module.dag.nodes.size(), -1);
  std::vector<const ir::Edge*> path;
  while (seen[at] < 0) {
    seen[at] = static_cast<int64_t>(path.size());
    const ir::Edge* edge = into[at].front();
    for (const ir::Edge* e : into[at])
      if (e->kind == ir::EdgeKind::kOrder) edge = e;
    path.push_back(edge);
    at = edge->from.index;
  }
  std::vector<const ir::Edge*> cycle(path.begin() + seen[at], path.end());
  std::reverse(cycle.begin(), cycle.end());
  diag::Span span;
  for (const ir::Edge* e : cycle)
    if (e->kind == ir::EdgeKind::kOrder && span.line == 0) span = e->span;
  auto error = diags.error("P0221", span);
  error << "this order contradicts the data flow: " << module.describe(cycle.front()->from) << " would wait for itself";
  for (const ir::Edge* e : cycle) {
    const std::string why = e->kind == ir::EdgeKind::kData ? "it reads the result"
                            : e->span.line == 0            ? "it updates running statistics after it"
                                                           : "this order says so";
    error.note(module.describe(e->to) + " comes after " + module.describe(e->from) + ": " + why, e->span);
  }
  error.help("order the forward of each microbatch before its backward, and the stages in the order of the model");
  return error;
}

}  // namespace

Status order_nodes(ir::Module& module, diag::Diagnostics& diags) {
  const FlatLists<uint32_t> next(module.dag.nodes.size(), [&](const auto& add) {
    for (const ir::Edge& e : module.dag.edges) add(e.from.index, e.to.index);
  });
  std::vector<uint32_t> waiting(module.dag.nodes.size(), 0);
  for (const ir::Edge& e : module.dag.edges) ++waiting[e.to.index];
  const auto classes = classes_of_groups(module);
  size_t num_classes = 0;
  for (const auto& list : classes)
    for (uint32_t c : list) num_classes = std::max<size_t>(num_classes, c + 1);
  std::vector<int64_t> free_at(num_classes, 0), ready(module.dag.nodes.size(), 0);

  // (start, rank, microbatch, pass, node), smallest first. A start may be stale: it is checked when popped.
  using Entry = std::tuple<int64_t, int32_t, int32_t, int32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<Cost> costs(module.dag.nodes.size());
  for (size_t i = 0; i < module.dag.nodes.size(); ++i) costs[i] = cost_of(module, module.dag.nodes[i].payload);
  auto start_of = [&](uint32_t n) {
    int64_t start = ready[n];
    if (costs[n].occupies)
      for (uint32_t c : classes[module.dag.nodes[n].group.index]) start = std::max(start, free_at[c]);
    return start;
  };
  auto push = [&](uint32_t n) { queue.emplace(start_of(n), costs[n].rank, costs[n].microbatch, costs[n].pass, n); };
  for (uint32_t n = 0; n < module.dag.nodes.size(); ++n)
    if (waiting[n] == 0) push(n);
  module.dag.order.clear();
  module.dag.order.reserve(module.dag.nodes.size());
  while (!queue.empty()) {
    const auto [start, rank, microbatch, pass, n] = queue.top();
    queue.pop();
    const int64_t now = start_of(n);
    if (now > start) {
      queue.emplace(now, rank, microbatch, pass, n);
      continue;
    }
    module.dag.order.push_back(NodeId(n));
    const int64_t end = start + costs[n].time;
    if (costs[n].occupies)
      for (uint32_t c : classes[module.dag.nodes[n].group.index]) free_at[c] = end;
    for (uint32_t to : next[n]) {
      ready[to] = std::max(ready[to], end);
      if (--waiting[to] == 0) push(to);
    }
  }
  if (module.dag.order.size() != module.dag.nodes.size()) return report_cycle(module, waiting, diags);
  return Status();
}

}  // namespace piper::passes
