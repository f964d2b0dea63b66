// Checks the rules of verify_dag.h.
#include "compiler/ir/verify_dag.h"

#include <algorithm>
#include <set>

#include "compiler/ir/verify_parts.h"

namespace piper::ir {
namespace {

class DagVerifier {
 public:
  explicit DagVerifier(const Module& module) : module_(module), dag_(module.dag) {}

  Status run() {
    if (dag_.nodes.empty()) return {};
    if (module_.variants.empty()) return broken(kRuleNodes, "there is no model");
    for (size_t n = 0; n < dag_.nodes.size(); ++n)
      PIPER_RETURN_IF_ERROR(node(dag_.nodes[n]).with_context("node " + std::to_string(n)));
    for (const Edge& edge : dag_.edges)
      if (edge.from.index >= dag_.nodes.size() || edge.to.index >= dag_.nodes.size() || edge.from == edge.to)
        return broken(kRuleEdges,
                      "an edge from node " + std::to_string(edge.from.index) + " to " + std::to_string(edge.to.index));
    PIPER_RETURN_IF_ERROR(order());
    return reductions();
  }

  Status operator()(const ValueOperand& o) {
    PIPER_RETURN_IF_ERROR(pass(o.at));
    if (o.value.valid() && o.value.index < module_.graph().num_values()) return {};
    return broken(kRuleNodes, "there is no such value");
  }
  Status operator()(const GradientOperand& o) {
    PIPER_RETURN_IF_ERROR(exists(o.bucket, module_.state.buckets.size(), "bucket"));
    for (int32_t m : o.microbatches) PIPER_RETURN_IF_ERROR(microbatch(m));
    return {};
  }
  Status operator()(const ParameterOperand& o) {
    for (const ComputeNode& reader : o.readers) PIPER_RETURN_IF_ERROR(pass(reader));
    return exists(o.bucket, module_.state.buckets.size(), "bucket");
  }
  Status operator()(const UseOperand& o) { return exists(o.use, module_.state.accumulators.size(), "accumulator"); }
  Status operator()(const ScalarOperand& o) { return scalar(o.scalar); }

  Status operator()(const TakeScalar& w) { return scalar(w.scalar); }
  Status operator()(const FinishCounts& w) { return exists(w.chunk, module_.chunks().size(), "chunk"); }
  Status operator()(const CombineUses& w) {
    if (w.parameter < module_.state.parameter_uses.size()) return {};
    return broken(kRuleNodes, "there is no parameter " + std::to_string(w.parameter));
  }
  Status operator()(const MeasureGradients& w) { return scalar(w.norms); }
  Status operator()(const ClipGradients& w) {
    for (ScalarId id : {w.norms, w.norm, w.scale}) PIPER_RETURN_IF_ERROR(scalar(id));
    return {};
  }

  Status operator()(const AdvanceOptimizer&) { return {}; }
  Status operator()(const CheckGradients& w) { return scalar(w.overflow); }
  Status operator()(const UnscaleGradients& w) { return scalar(w.scale); }

  Status operator()(const ComputeNode& n) { return pass(n); }
  Status operator()(const CollectiveNode& n) {
    PIPER_RETURN_IF_ERROR(std::visit(*this, n.what));
    return exists(n.teams, module_.distribution.teams.size(), "teams");
  }
  Status operator()(const TransferNode& n) {
    PIPER_RETURN_IF_ERROR(std::visit(*this, n.what));
    return exists(n.to, module_.distribution.groups.size(), "group");
  }
  Status operator()(const StepNode& n) { return std::visit(*this, n.work); }
  Status operator()(const UpdateNode& n) { return exists(n.bucket, module_.state.buckets.size(), "bucket"); }

 private:
  template <class Id>
  static Status exists(Id id, size_t size, const std::string& what) {
    if (id.valid() && id.index < size) return {};
    return broken(kRuleNodes, "there is no " + what + " " + (id.valid() ? std::to_string(id.index) : "none"));
  }
  Status scalar(ScalarId id) const { return exists(id, dag_.scalars.size(), "scalar"); }
  Status microbatch(int32_t m) const {
    if (m >= 0 && m < module_.step.num_microbatches) return {};
    return broken(kRuleNodes, "there is no microbatch " + std::to_string(m));
  }
  Status pass(const ComputeNode& n) const {
    PIPER_RETURN_IF_ERROR(exists(n.chunk, module_.chunks().size(), "chunk"));
    PIPER_RETURN_IF_ERROR(microbatch(n.microbatch));
    if (n.chunk.index < module_.distribution.chunks.size()) return {};
    return broken(kRuleNodes, "chunk " + std::to_string(n.chunk.index) + " has no devices");
  }

  Status node(const Node& n) {
    PIPER_RETURN_IF_ERROR(exists(n.group, module_.distribution.groups.size(), "group"));
    if (n.stream >= module_.distribution.streams.size())
      return broken(kRuleNodes, "there is no stream " + std::to_string(n.stream));
    PIPER_RETURN_IF_ERROR(verify_prov(module_, n.prov, "a node"));
    PIPER_RETURN_IF_ERROR(std::visit(*this, n.payload));
    if (const ComputeNode* pass = chunk_pass(n.payload)) PIPER_RETURN_IF_ERROR(stands_once(n, *pass));
    if (const auto* collective = std::get_if<CollectiveNode>(&n.payload))
      PIPER_RETURN_IF_ERROR(this->collective(n, *collective));
    if (const auto* transfer = std::get_if<TransferNode>(&n.payload); transfer != nullptr && transfer->to == n.group)
      return broken(kRuleTransfers, "group " + std::to_string(n.group.index) + " sends to itself");
    return {};
  }

  Status stands_once(const Node& n, const ComputeNode& pass) {
    const std::string name = chunk_text(module_, pass.chunk) + ", microbatch " + std::to_string(pass.microbatch);
    if (!passes_.emplace(pass.chunk, pass.phase, pass.microbatch).second)
      return broken(kRulePasses, "a pass of " + name + " appears twice");
    if (module_.distribution.group(pass.chunk, pass.microbatch) != n.group)
      return broken(kRulePasses, name + " runs on another group");
    return {};
  }

  DType dtype_of(const Operand& what) const {
    if (const auto* value = std::get_if<ValueOperand>(&what)) return module_.graph().type(value->value).dtype;
    if (const auto* scalar = std::get_if<ScalarOperand>(&what)) return dag_.scalars[scalar->scalar.index].dtype;
    if (const auto* gradients = std::get_if<GradientOperand>(&what))
      return module_.state.buckets[gradients->bucket.index].dtype;
    if (const auto* parameters = std::get_if<ParameterOperand>(&what))
      return module_.state.buckets[parameters->bucket.index].read();
    return module_.state.bucket_of(std::get<UseOperand>(what).use).dtype;
  }

  Status collective(const Node& n, const CollectiveNode& c) const {
    std::vector<int32_t> group = module_.distribution.ranks(n.group);
    std::vector<int32_t> members = joined(module_.distribution.teams[c.teams.index]);
    std::sort(members.begin(), members.end());
    std::sort(group.begin(), group.end());
    // Experts' groups are those of all chunks of a shard, which may run a microbatch on some of them.
    const bool partition = c.kind == CollectiveKind::kAllToAll
                               ? std::includes(members.begin(), members.end(), group.begin(), group.end())
                               : members == group;
    if (!partition || std::adjacent_find(members.begin(), members.end()) != members.end())
      return broken(kRuleCollectives, "its teams do not partition its group");
    if (c.types.data != dtype_of(c.what))
      return broken(kRuleCollectives, "its element type is not that of its operand");
    if (std::holds_alternative<ValueOperand>(c.what) && c.kind != CollectiveKind::kAllToAll &&
        module_.distribution.teams[c.teams.index] != module_.distribution.rows(n.group))
      return broken(kRuleCollectives, "its teams are not the replicas of its group");
    const bool adds = c.kind == CollectiveKind::kAllReduce || c.kind == CollectiveKind::kReduceScatter;
    if (!adds && c.types != plan::SumTypes(c.types.data))
      return broken(kRuleCollectives, "it adds nothing, and has the types of a sum");
    return {};
  }

  Status order() const {
    if (dag_.order.empty()) return {};
    std::vector<size_t> place(dag_.nodes.size(), SIZE_MAX);
    for (size_t i = 0; i < dag_.order.size(); ++i) {
      const NodeId n = dag_.order[i];
      if (n.index >= place.size() || place[n.index] != SIZE_MAX)
        return broken(kRuleExtension, "node " + std::to_string(n.index) + " is not there, or twice");
      place[n.index] = i;
    }
    for (size_t n = 0; n < place.size(); ++n)
      if (place[n] == SIZE_MAX) return broken(kRuleExtension, "node " + std::to_string(n) + " is not in the order");
    for (const Edge& edge : dag_.edges)
      if (place[edge.from.index] > place[edge.to.index])
        return broken(kRuleExtension, "node " + std::to_string(edge.to.index) + " comes before " +
                                          std::to_string(edge.from.index) + ", which has an edge to it");
    return {};
  }

  Status reductions() const {
    std::set<BucketId> reduced;
    for (const Edge& edge : dag_.edges) {
      const auto* collective = std::get_if<CollectiveNode>(&dag_.nodes[edge.from.index].payload);
      const auto* update = std::get_if<UpdateNode>(&dag_.nodes[edge.to.index].payload);
      const auto* gradients = collective != nullptr ? std::get_if<GradientOperand>(&collective->what) : nullptr;
      if (gradients != nullptr && update != nullptr && gradients->bucket == update->bucket)
        reduced.insert(update->bucket);
    }
    for (const Node& n : dag_.nodes)
      if (const auto* update = std::get_if<UpdateNode>(&n.payload))
        if (const Bucket& bucket = module_.state.buckets[update->bucket.index];
            bucket.team_size > 1 && !reduced.count(update->bucket))
          return broken(kRuleReductions, "bucket " + bucket.name + " is updated by gradients that nobody summed");
    return {};
  }

  const Module& module_;
  const Dag& dag_;
  std::set<std::tuple<ChunkId, Phase, int32_t>> passes_;
};

}  // namespace

Status verify_dag(const Module& module) { return DagVerifier(module).run(); }

}  // namespace piper::ir
