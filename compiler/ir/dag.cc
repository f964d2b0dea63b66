#include "compiler/ir/dag.h"

namespace piper::ir {

NodeId Dag::add_node(NodePayload payload, GroupId group, uint32_t stream, ProvId prov) {
  nodes.push_back({std::move(payload), group, stream, prov});
  return NodeId(nodes.size() - 1);
}

void Dag::add_edge(NodeId from, NodeId to, EdgeKind kind, diag::Span span) { edges.push_back({from, to, kind, span}); }

const ComputeNode* chunk_pass(const NodePayload& payload) {
  if (const auto* compute = std::get_if<ComputeNode>(&payload)) return compute;
  const auto* collective = std::get_if<CollectiveNode>(&payload);
  if (collective == nullptr) return nullptr;
  const auto* value = std::get_if<ValueOperand>(&collective->what);
  return value == nullptr ? nullptr : &value->at;
}

}  // namespace piper::ir
