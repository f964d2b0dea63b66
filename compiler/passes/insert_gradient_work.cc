#include "compiler/passes/insert_gradient_work.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::AccumulatorId;
using ir::BucketId;
using ir::ChunkId;
using ir::GroupId;
using ir::NodeId;

// Gradients travel as the strategy says, else as they are, and are added in f32 at least.
plan::SumTypes types_of_sum(const ir::Precision& precision, DType gradients) {
  plan::SumTypes types(gradients);
  types.message = precision.reduce.value_or(gradients);
  types.sum = is_half(gradients) || is_half(types.message) ? DType::kF32 : gradients;
  return types;
}

class GradientWork {
 public:
  explicit GradientWork(ir::Module& module) : module_(module), shapes_(module.shapes) {}

  void run() {
    reduce_buckets();
    combine_tied();
    check();
    clip();
    advance();
    update();
  }

 private:
  bool holds_weights(const ir::Bucket& bucket) const;
  void reduce_buckets();
  void combine_tied();
  void check();
  void clip();
  void advance();
  ir::ScalarId add_scalar(const char* name, const char* what, std::vector<int64_t> shape, ir::ScalarReader reader);
  NodeId once_final(ir::StepWork work, ir::ProvId prov);
  NodeId summed(NodeId part, ir::ScalarId scalar, const char* stream, ir::ProvId prov);
  void update();
  GroupId everyone();
  size_t num_parameters() const { return module_.state.parameter_uses.size(); }

  ir::Module& module_;
  const std::vector<ir::ChunkShape>& shapes_;
  std::vector<std::vector<NodeId>> ready_;     // [bucket]: after these its gradients are final on their group
  std::vector<std::vector<NodeId>> combined_;  // [parameter]: combine nodes of a tied parameter
  NodeId check_, clip_, advance_;              // clip_: of whatever makes the factor on gradients
};

// Whether the bucket's weights are laid out as its gradients are. A parameter that one group uses twice has two
// gradients and one weight, which is in the bucket of the first use.
bool GradientWork::holds_weights(const ir::Bucket& bucket) const {
  return std::any_of(bucket.accumulators.begin(), bucket.accumulators.end(), [&](AccumulatorId id) {
    const ir::Accumulator& a = module_.state.accumulators[id.index];
    const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[a.parameter];
    return std::none_of(uses.begin(), uses.begin() + a.use, [&](AccumulatorId before) {
      return module_.state.accumulators[before.index].group == a.group;
    });
  });
}

void GradientWork::reduce_buckets() {
  ready_.assign(module_.state.buckets.size(), {});
  for (size_t b = 0; b < module_.state.buckets.size(); ++b) {
    const ir::Bucket bucket = module_.state.buckets[b];
    std::vector<ChunkId> chunks;
    for (AccumulatorId id : bucket.accumulators)
      for (ChunkId c : module_.state.accumulators[id.index].chunks)
        if (std::find(chunks.begin(), chunks.end(), c) == chunks.end()) chunks.push_back(c);
    auto backwards_of = [&](int32_t m, std::vector<NodeId>& backwards) {
      for (ChunkId c : chunks)
        for (ir::Phase pass : {ir::Phase::kBackward, ir::Phase::kBackwardWeight})
          if (const NodeId n = module_.dag.node_of(c, pass, m); n.valid()) backwards.push_back(n);
    };
    auto reduce_after = [&](const std::vector<NodeId>& before, ir::CollectiveKind kind, ir::TeamsId teams,
                            std::vector<int32_t> microbatches) {
      ir::CollectiveNode collective{kind, ir::GradientOperand{BucketId(b), std::move(microbatches)}, teams,
                                    types_of_sum(module_.precision, bucket.dtype), plan::Reduction::kSum};
      const NodeId reduce = module_.dag.add_node(std::move(collective), bucket.group, bucket.stream, bucket.prov);
      for (NodeId node : before) module_.dag.add_edge(node, reduce);
      ready_[b].push_back(reduce);
    };
    const auto reduce_across = [&] {
      if (!bucket.across.valid()) return;
      const std::vector<NodeId> parts = std::exchange(ready_[b], {});
      reduce_after(parts, ir::CollectiveKind::kAllReduce, bucket.across, {});
    };
    if (bucket.gradients == ir::Kept::kPart) {
      // The first microbatches of all groups together, then the second ones, and so on.
      std::map<int32_t, std::vector<int32_t>> rounds;
      for (int32_t m = 0; m < module_.step.num_microbatches; ++m)
        rounds[module_.distribution.round_of(chunks[0], m)].push_back(m);
      for (auto& [round, microbatches] : rounds) {
        std::vector<NodeId> backwards;
        for (int32_t m : microbatches) backwards_of(m, backwards);
        reduce_after(backwards, ir::CollectiveKind::kReduceScatter, bucket.teams, std::move(microbatches));
      }
      reduce_across();
      continue;
    }
    std::vector<NodeId> backwards;
    for (int32_t m = 0; m < module_.step.num_microbatches; ++m) backwards_of(m, backwards);
    if (bucket.moments == ir::Kept::kPart)
      reduce_after(backwards, ir::CollectiveKind::kReduceScatter, bucket.teams, {});
    else if (bucket.team_size > 1) reduce_after(backwards, ir::CollectiveKind::kAllReduce, bucket.teams, {});
    else ready_[b] = std::move(backwards);
    reduce_across();
  }
}

void GradientWork::combine_tied() {
  combined_.assign(num_parameters(), {});
  for (size_t p = 0; p < num_parameters(); ++p) {
    const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[p];
    if (uses.size() < 2) continue;
    std::vector<GroupId> groups;
    for (AccumulatorId use : uses) {
      const GroupId g = module_.state.accumulators[use.index].group;
      if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
    std::vector<ir::ProvId> parents;
    for (AccumulatorId use : uses)
      parents.push_back(module_.distribution.chunks[module_.state.accumulators[use.index].chunk.index].placed_by);
    const ir::ProvId prov = module_.provenance.derived("insert_gradient_work", parents);
    std::vector<NodeId> inputs;
    for (AccumulatorId use : uses) {
      const ir::Accumulator& a = module_.state.accumulators[use.index];
      for (NodeId n : ready_[a.bucket.index]) inputs.push_back(n);
      for (GroupId to : groups) {
        const auto& have = module_.distribution.ranks(a.group);
        const auto& want = module_.distribution.ranks(to);
        const bool needed = std::any_of(
            want.begin(), want.end(), [&](int32_t r) { return std::find(have.begin(), have.end(), r) == have.end(); });
        if (to == a.group || !needed) continue;
        const NodeId send = module_.dag.add_node(ir::TransferNode{ir::UseOperand{use}, to}, a.group,
                                                 module_.distribution.chunks[a.chunk.index].message_stream, prov);
        for (NodeId n : ready_[a.bucket.index]) module_.dag.add_edge(n, send);
        inputs.push_back(send);
      }
    }
    for (GroupId g : groups) {
      const NodeId sum = module_.dag.add_node(ir::StepNode{ir::CombineUses{static_cast<uint32_t>(p)}}, g, 0, prov);
      for (NodeId n : inputs) module_.dag.add_edge(n, sum);
      combined_[p].push_back(sum);
    }
  }
}

GroupId GradientWork::everyone() {
  std::vector<int32_t> world(module_.distribution.world_size);
  std::iota(world.begin(), world.end(), 0);
  return module_.distribution.intern_group(world);
}

ir::ScalarId GradientWork::add_scalar(const char* name, const char* what, std::vector<int64_t> shape,
                                      ir::ScalarReader reader) {
  module_.dag.scalars.push_back(
      {name, what, what, ir::kScalarType, std::move(shape), plan::Reduction::kSum, reader, {}});
  return ir::ScalarId(module_.dag.scalars.size() - 1);
}

// Work of every device on gradients that are final.
NodeId GradientWork::once_final(ir::StepWork work, ir::ProvId prov) {
  const NodeId node = module_.dag.add_node(ir::StepNode{work}, everyone(), 0, prov);
  for (const auto* nodes : {&ready_, &combined_})
    for (const std::vector<NodeId>& final : *nodes)
      for (NodeId n : final) module_.dag.add_edge(n, node);
  return node;
}

// The node after which every device has the sum of a scalar that each device has a part of.
NodeId GradientWork::summed(NodeId part, ir::ScalarId scalar, const char* stream, ir::ProvId prov) {
  const GroupId all = everyone();
  const std::vector<int32_t>& world = module_.distribution.ranks(all);
  if (world.size() == 1) return part;
  const ir::CollectiveNode sum{ir::CollectiveKind::kAllReduce, ir::ScalarOperand{scalar},
                               module_.distribution.intern_teams({world}), ir::kScalarType, plan::Reduction::kSum};
  const NodeId whole = module_.dag.add_node(sum, all, module_.distribution.intern_stream(stream), prov);
  module_.dag.add_edge(part, whole);
  return whole;
}

// All devices learn of an overflow anywhere, so that all leave the step out.
void GradientWork::check() {
  if (!module_.precision.scales()) return;
  const ir::ProvId prov = module_.precision.prov;
  const ir::ScalarId overflow =
      add_scalar("overflow", "the number of gradients that overflow", {}, ir::ScalarReader::kSkips);
  check_ = summed(once_final(ir::CheckGradients{overflow}, prov), overflow, "overflow", prov);
}

void GradientWork::clip() {
  const bool scales = module_.precision.scales();
  if (!module_.training.clips() && !scales) return;
  const auto add_factor = [&] {
    return add_scalar("grad_scale", "the factor on gradients", {}, ir::ScalarReader::kUpdates);
  };
  if (!module_.training.clips()) {
    clip_ =
        module_.dag.add_node(ir::StepNode{ir::UnscaleGradients{add_factor()}}, everyone(), 0, module_.precision.prov);
    module_.dag.add_edge(check_, clip_);
    return;
  }
  const ir::ProvId prov = module_.training.clip_prov;
  const ir::ScalarId norms = add_scalar("grad norms", "the gradient norms", {static_cast<int64_t>(num_parameters())},
                                        ir::ScalarReader::kClipping),
                     norm_of_all = add_scalar("grad_norm", "the gradient norm", {}, ir::ScalarReader::kLog),
                     scale = add_factor();
  const NodeId norm = summed(once_final(ir::MeasureGradients{norms}, prov), norms, "clip", prov);
  clip_ = module_.dag.add_node(ir::StepNode{ir::ClipGradients{norms, norm_of_all, scale}}, everyone(), 0, prov);
  module_.dag.add_edge(norm, clip_);
}

void GradientWork::advance() {
  advance_ = module_.dag.add_node(ir::StepNode{ir::AdvanceOptimizer{}}, everyone(), 0, module_.training.update_prov);
  for (NodeId n : {check_, clip_})
    if (n.valid()) module_.dag.add_edge(n, advance_);
}

void GradientWork::update() {
  for (size_t b = 0; b < module_.state.buckets.size(); ++b) {
    const ir::Bucket bucket = module_.state.buckets[b];
    const NodeId update =
        module_.dag.add_node(ir::UpdateNode{BucketId(b)}, bucket.group, 0, module_.training.update_prov);
    for (NodeId n : ready_[b]) module_.dag.add_edge(n, update);
    if (clip_.valid()) module_.dag.add_edge(clip_, update);
    module_.dag.add_edge(advance_, update);
    for (AccumulatorId id : bucket.accumulators) {
      const uint32_t p = module_.state.accumulators[id.index].parameter;
      for (NodeId n : combined_[p]) module_.dag.add_edge(n, update);
      // Chunks that read the parameter without adding to its gradient.
      for (size_t c = 0; c < shapes_.size(); ++c) {
        if (!std::binary_search(shapes_[c].reads.begin(), shapes_[c].reads.end(), p) ||
            std::binary_search(shapes_[c].gradients.begin(), shapes_[c].gradients.end(), p))
          continue;
        for (const auto& pass : module_.dag.compute[c])
          for (NodeId n : pass)
            if (n.valid()) module_.dag.add_edge(n, update);
      }
    }
    // Each member has updated its part of what all keep whole.
    if (bucket.moments == ir::Kept::kPart && bucket.parameters == ir::Kept::kWhole && holds_weights(bucket)) {
      ir::CollectiveNode gather{ir::CollectiveKind::kAllGather, ir::ParameterOperand{BucketId(b), {}}, bucket.teams,
                                bucket.read(), plan::Reduction::kSum};
      module_.dag.add_edge(update,
                           module_.dag.add_node(std::move(gather), bucket.group, bucket.gather_stream, bucket.prov));
    }
  }
}

}  // namespace

void insert_gradient_work(ir::Module& module) {
  PIPER_CHECK(module.shapes.size() == module.chunks().size(), "one shape per chunk");
  PIPER_CHECK(module.state.parameter_uses.size() == module.graph().parameters().size(), "buckets are formed first");
  GradientWork(module).run();
}

}  // namespace piper::passes
