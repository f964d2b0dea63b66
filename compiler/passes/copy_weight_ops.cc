#include "compiler/passes/copy_weight_ops.h"

#include <map>
#include <utility>

#include "compiler/analysis/op_roles.h"

namespace piper::passes {
namespace {

using ir::ChunkId;
using ir::OpId;
using ir::ValueId;

class WeightOps {
 public:
  // `replicas`: [region][microbatch], how many run it.
  WeightOps(ir::Graph& graph, const std::vector<std::vector<int64_t>>& replicas)
      : graph_(graph), replicas_(replicas), roles_(analysis::op_roles(graph)), num_ops_(graph.num_ops()) {}

  void run() {
    for (size_t i = 0; i < num_ops_; ++i) {
      const ChunkId here = graph_.op(OpId(i)).chunk;
      for (size_t k = 0; k < graph_.op(OpId(i)).operands.size(); ++k) {
        const ValueId v = graph_.op(OpId(i)).operands[k];
        if (!is_made_of_weights(v)) continue;
        const ChunkId there = graph_.op(graph_.value(v).producer).chunk;
        if (there == here || replicas_[there.index] == replicas_[here.index]) continue;
        const ValueId copy = copied(v, here);  // moves the list of ops
        graph_.op(OpId(i)).operands[k] = copy;
      }
    }
    if (graph_.num_ops() > num_ops_) graph_.sort_ops();
  }

 private:
  bool is_made_of_weights(ValueId v) const {
    if (!v.valid() || graph_.value(v).kind != ir::ValueKind::kOpResult) return false;
    const OpId producer = graph_.value(v).producer;
    return producer.index < num_ops_ && roles_[producer.index] == analysis::OpRole::kWeights;
  }

  // The value as the region computes it for itself, with all that it is made of.
  ValueId copied(ValueId v, ChunkId region) {
    if (!v.valid() || graph_.value(v).kind != ir::ValueKind::kOpResult) return v;
    const OpId producer = graph_.value(v).producer;
    if (graph_.op(producer).chunk == region) return v;
    const auto key = std::make_pair(v.index, region.index);
    if (const auto known = copies_.find(key); known != copies_.end()) return known->second;
    const ir::Op op = graph_.op(producer);  // a copy: appending moves the list
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) operands.push_back(copied(operand, region));
    std::vector<ir::TensorType> types;
    for (ValueId result : op.results) types.push_back(graph_.type(result));
    const OpId made = graph_.append(op.kind, op.attrs, std::move(operands), std::move(types), op.scope,
                                    graph_.provenance().derived("copy_weight_ops", {op.prov}));
    graph_.op(made).phase = op.phase;
    graph_.op(made).chunk = region;
    for (size_t r = 0; r < op.results.size(); ++r)
      copies_[{op.results[r].index, region.index}] = graph_.op(made).results[r];
    return copies_.at(key);
  }

  ir::Graph& graph_;
  const std::vector<std::vector<int64_t>>& replicas_;
  const std::vector<analysis::OpRole> roles_;
  const size_t num_ops_;
  std::map<std::pair<uint32_t, uint32_t>, ValueId> copies_;  // (value, region)
};

}  // namespace

void copy_weight_ops(ir::Module& module) {
  std::vector<std::vector<int64_t>> replicas;
  for (const ir::ChunkProperties& row : module.distribution.chunks) {
    replicas.emplace_back();
    for (ir::GroupId group : row.groups) replicas.back().push_back(module.distribution.replicas(group));
  }
  for (ir::ModelVariant& variant : module.variants) {
    WeightOps(variant.chunked.graph, replicas).run();
    if (variant.like) WeightOps(*variant.like, replicas).run();
  }
}

}  // namespace piper::passes
