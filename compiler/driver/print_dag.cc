#include "compiler/driver/print_dag.h"

#include <ostream>

namespace piper::driver {

void print_dag(const ir::Dag& dag, const ir::Graph& graph, std::ostream& out) {
  auto group = [&](ir::GroupId id) {
    std::string text = "[";
    for (size_t i = 0; i < dag.groups[id.index].ranks.size(); ++i)
      text += (i ? "," : "") + std::to_string(dag.groups[id.index].ranks[i]);
    return text + "]";
  };
  std::vector<ir::NodeId> order = dag.order;
  if (order.empty())
    for (size_t i = 0; i < dag.nodes.size(); ++i) order.push_back(ir::NodeId(i));
  out << "dag world " << dag.world_size << " microbatches " << dag.num_microbatches << " nodes " << dag.nodes.size()
      << " edges " << dag.edges.size() << "\n";
  for (ir::NodeId id : order) {
    const ir::Node& node = dag.nodes[id.index];
    out << "  %" << id.index << " " << dag.describe(id) << " on " << group(node.group);
    if (const auto* message = std::get_if<ir::TransferNode>(&node.payload)) {
      out << " to " << group(message->to);
      if (message->cargo == ir::Cargo::kValue) out << " value '" << graph.value(message->value).name << "'";
    }
    out << " stream " << dag.streams[node.stream];
    if (node.prov.valid()) out << " (" << dag.provenance.describe(node.prov) << ")";
    out << "\n";
  }
}

}  // namespace piper::driver
