#include "compiler/passes/insert_transfers.h"

#include <map>
#include <tuple>
#include <variant>

namespace piper::passes {

using ir::NodeId;

void insert_transfers(ir::Module& module) {
  // Values that go from one chunk to another, by (pass, from, to).
  std::map<std::tuple<ir::Phase, uint32_t, uint32_t>, std::vector<ir::ValueId>> values;
  for (const ir::Crossing& c : module.crossings()) values[{c.phase, c.from.index, c.to.index}].push_back(c.value);
  // (value, microbatch, receiving group) -> the message, shared by all its readers.
  std::map<std::tuple<uint32_t, int32_t, uint32_t>, NodeId> messages;
  std::vector<ir::Edge> kept;
  std::vector<ir::Edge> edges = std::move(module.dag.edges);
  module.dag.edges.clear();
  kept.reserve(edges.size());
  std::vector<ir::ProvId> prov;  // [chunk]: messages come from the placement of their producer
  for (const ir::ChunkProperties& chunk : module.distribution.chunks)
    prov.push_back(module.provenance.derived("insert_transfers", {chunk.placed_by}));
  for (const ir::Edge& edge : edges) {
    const ir::Node from = module.dag.nodes[edge.from.index];
    const ir::GroupId to_group = module.dag.nodes[edge.to.index].group;
    const ir::ComputeNode* producer = ir::chunk_pass(from.payload);
    const ir::ComputeNode* consumer = ir::chunk_pass(module.dag.nodes[edge.to.index].payload);
    const bool crosses = producer && consumer && producer->chunk != consumer->chunk && from.group != to_group;
    if (!crosses) {
      kept.push_back(edge);
      continue;
    }
    for (ir::ValueId value : values.at({producer->phase, producer->chunk.index, consumer->chunk.index})) {
      auto [it, fresh] = messages.emplace(std::make_tuple(value.index, producer->microbatch, to_group.index), NodeId());
      if (fresh) {
        const ir::TransferNode message{ir::ValueOperand{*producer, value}, to_group};
        it->second =
            module.dag.add_node(message, from.group, module.distribution.chunks[producer->chunk.index].message_stream,
                                prov[producer->chunk.index]);
        kept.push_back({edge.from, it->second, ir::EdgeKind::kData, {}});
      }
      kept.push_back({it->second, edge.to, ir::EdgeKind::kData, {}});
    }
  }
  module.dag.edges = std::move(kept);
}

}  // namespace piper::passes
