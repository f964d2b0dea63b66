#include "compiler/driver/print_dag.h"

#include <ostream>

namespace piper::driver {

void print_dag(const ir::Module& module, std::ostream& out) {
  auto group = [&](ir::GroupId id) {
    std::string text = "[";
    for (size_t i = 0; i < module.distribution.groups[id.index].ranks.size(); ++i)
      text += (i ? "," : "") + std::to_string(module.distribution.groups[id.index].ranks[i]);
    return text + "]";
  };
  std::vector<ir::NodeId> order = module.dag.order;
  if (order.empty())
    for (size_t i = 0; i < module.dag.nodes.size(); ++i) order.push_back(ir::NodeId(i));
  out << "dag world " << module.distribution.world_size << " microbatches " << module.step.num_microbatches << " nodes "
      << module.dag.nodes.size() << " edges " << module.dag.edges.size() << "\n";
  for (ir::NodeId id : order) {
    const ir::Node& node = module.dag.nodes[id.index];
    out << "  %" << id.index << " " << module.describe(id) << " on " << group(node.group);
    if (const auto* message = std::get_if<ir::TransferNode>(&node.payload)) {
      out << " to " << group(message->to);
      if (const auto* operand = std::get_if<ir::ValueOperand>(&message->what))
        out << " value '" << module.graph().value(operand->value).name << "'";
    }
    out << " stream " << module.distribution.streams[node.stream];
    if (node.prov.valid()) out << " (" << module.provenance.describe(node.prov) << ")";
    out << "\n";
  }
}

}  // namespace piper::driver
