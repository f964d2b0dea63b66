#include "compiler/passes/delay_gathers.h"

#include <algorithm>
#include <map>
#include <vector>

namespace piper::passes {
namespace {

using ir::NodeId;

// A collective of a backward that no node of a backward leads to.
bool is_gathered_again(const ir::Module& module, const ir::Node& node) {
  const auto* collective = std::get_if<ir::CollectiveNode>(&node.payload);
  if (collective == nullptr || collective->kind != ir::CollectiveKind::kAllGather) return false;
  const auto* value = std::get_if<ir::ValueOperand>(&collective->what);
  if (value == nullptr || value->at.phase == ir::Phase::kForward) return false;
  const ir::Value& made = module.graph().value(value->value);
  const ir::Value& read = module.graph().value(module.graph().op(made.producer).operands[0]);
  return read.kind == ir::ValueKind::kOpResult && module.graph().op(read.producer).phase == ir::Phase::kForward;
}

}  // namespace

void delay_gathers(ir::Module& module) {
  std::vector<bool> late(module.dag.nodes.size(), false);
  for (size_t n = 0; n < late.size(); ++n) late[n] = is_gathered_again(module, module.dag.nodes[n]);
  if (std::find(late.begin(), late.end(), true) == late.end()) return;
  std::map<uint32_t, std::vector<NodeId>> read_by;  // compute -> gathers
  for (const ir::Edge& edge : module.dag.edges)
    if (late[edge.from.index]) read_by[edge.to.index].push_back(edge.from);

  const std::vector<NodeId> order = std::move(module.dag.order);
  std::vector<std::vector<NodeId>> before(order.size());  // [position in the order] gathers issued before it
  std::map<uint32_t, size_t> last_compute;                // of a group: its position
  std::map<uint32_t, size_t> place;                       // of a gather
  for (size_t i = 0; i < order.size(); ++i) {
    const ir::Node& node = module.dag.nodes[order[i].index];
    if (const auto found = read_by.find(order[i].index); found != read_by.end())
      for (const NodeId gather : found->second) {
        if (!late[gather.index]) continue;  // an earlier reader has it
        late[gather.index] = false;
        const auto computed = last_compute.find(node.group.index);
        const size_t wanted = computed == last_compute.end() ? i : computed->second;
        before[std::max(wanted, place.at(gather.index))].push_back(gather);  // never before what it reads
      }
    if (late[order[i].index]) place[order[i].index] = i;
    if (std::holds_alternative<ir::ComputeNode>(node.payload)) last_compute[node.group.index] = i;
  }
  std::vector<bool> moved(module.dag.nodes.size(), false);
  for (const std::vector<NodeId>& gathers : before)
    for (const NodeId gather : gathers) moved[gather.index] = true;
  module.dag.order.clear();
  module.dag.order.reserve(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    module.dag.order.insert(module.dag.order.end(), before[i].begin(), before[i].end());
    if (!moved[order[i].index]) module.dag.order.push_back(order[i]);
  }
}

}  // namespace piper::passes
