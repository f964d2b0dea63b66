#include "compiler/passes/delay_gathers.h"

#include <algorithm>
#include <map>
#include <vector>

namespace piper::passes {
namespace {

using ir::NodeId;

bool is_again(const ir::Module& module, const ir::Node& node) {
  const auto* collective = std::get_if<ir::CollectiveNode>(&node.payload);
  const auto* value = collective != nullptr ? std::get_if<ir::ValueOperand>(&collective->what) : nullptr;
  const auto* compute = value != nullptr ? &value->at : std::get_if<ir::ComputeNode>(&node.payload);
  return compute != nullptr && module.chunks()[compute->chunk.index].again;
}

}  // namespace

void delay_gathers(ir::Module& module) {
  const std::vector<ir::Node>& nodes = module.dag.nodes;
  std::vector<bool> late(nodes.size(), false);
  for (size_t n = 0; n < late.size(); ++n) late[n] = is_again(module, nodes[n]);
  if (std::find(late.begin(), late.end(), true) == late.end()) return;
  std::vector<std::vector<uint32_t>> next(nodes.size());  // of what is late
  for (const ir::Edge& edge : module.dag.edges)
    if (late[edge.from.index]) next[edge.from.index].push_back(edge.to.index);

  const std::vector<NodeId> order = std::move(module.dag.order);
  std::vector<size_t> place(nodes.size(), order.size()), compute_before(nodes.size());
  std::map<uint32_t, size_t> last_compute;  // of a group
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t n = order[i].index;
    place[n] = i;
    if (late[n]) continue;
    const auto computed = last_compute.find(nodes[n].group.index);
    compute_before[n] = computed == last_compute.end() ? i : computed->second;
    if (std::holds_alternative<ir::ComputeNode>(nodes[n].payload)) last_compute[nodes[n].group.index] = i;
  }
  // [position in the order] what is issued before it, the last first. A node moves towards the end, and never beyond
  // one that comes after it.
  std::vector<std::vector<NodeId>> before(order.size());
  for (size_t i = order.size(); i-- > 0;) {
    const uint32_t n = order[i].index;
    if (!late[n]) continue;
    size_t first = order.size(), wanted = order.size();
    for (const uint32_t to : next[n]) {
      first = std::min(first, place[to]);
      wanted = std::min(wanted, late[to] ? place[to] : compute_before[to]);
    }
    if (first == order.size()) first = wanted = i;
    place[n] = std::max(i, std::min(first, wanted));
    before[place[n]].push_back(order[i]);
  }
  module.dag.order.clear();
  module.dag.order.reserve(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    module.dag.order.insert(module.dag.order.end(), before[i].rbegin(), before[i].rend());
    if (!late[order[i].index]) module.dag.order.push_back(order[i]);
  }
}

}  // namespace piper::passes
