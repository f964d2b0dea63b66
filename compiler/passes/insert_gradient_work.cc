#include "compiler/passes/insert_gradient_work.h"

#include <algorithm>
#include <numeric>

#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::AccumulatorId;
using ir::BucketId;
using ir::ChunkId;
using ir::GroupId;
using ir::NodeId;

constexpr int64_t kAlignment = 64;  // bytes: parameters of a bucket start on cache lines

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class GradientWork {
 public:
  GradientWork(ir::Dag& dag, const std::vector<ChunkShape>& shapes, const std::vector<ParameterInfo>& parameters,
               const GradientOptions& options)
      : dag_(dag), shapes_(shapes), parameters_(parameters), options_(options) {}

  void run() {
    make_accumulators();
    make_buckets();
    reduce_buckets();
    combine_tied();
    clip();
    update();
  }

 private:
  std::vector<GroupId> groups_of(ChunkId chunk) const {
    std::vector<GroupId> groups;
    for (GroupId g : dag_.placement[chunk.index])
      if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    return groups;
  }
  void make_accumulators();
  void make_buckets();
  void close_bucket(std::vector<AccumulatorId>& members);
  void reduce_buckets();
  void combine_tied();
  void clip();
  void update();

  ir::Dag& dag_;
  const std::vector<ChunkShape>& shapes_;
  const std::vector<ParameterInfo>& parameters_;
  const GradientOptions& options_;
  std::vector<std::vector<NodeId>> ready_;            // [bucket]: after these its gradients are final on their group
  std::vector<std::vector<NodeId>> combined_;         // [parameter]: combine nodes of a tied parameter
  NodeId clip_;
};

void GradientWork::make_accumulators() {
  dag_.parameter_uses.assign(parameters_.size(), {});
  for (size_t c = 0; c < shapes_.size(); ++c)
    for (GroupId group : groups_of(ChunkId(c)))
      for (uint32_t p : shapes_[c].gradients) {
        ir::Accumulator a;
        a.parameter = p;
        a.chunk = ChunkId(c);
        a.group = group;
        a.use = static_cast<uint32_t>(dag_.parameter_uses[p].size());
        dag_.parameter_uses[p].push_back(AccumulatorId(dag_.accumulators.size()));
        dag_.accumulators.push_back(a);
      }
}

void GradientWork::close_bucket(std::vector<AccumulatorId>& members) {
  if (members.empty()) return;
  const ir::Accumulator& first = dag_.accumulators[members[0].index];
  const ir::Replication& replication = dag_.replication[first.chunk.index];
  ir::Bucket bucket;
  bucket.group = first.group;
  bucket.stream = replication.stream;
  bucket.prov = replication.prov;
  bucket.name = dag_.chunks[first.chunk.index].name + "/" + parameters_[first.parameter].name;
  if (dag_.placement[first.chunk.index].front() != first.group) bucket.name += "@" + std::to_string(first.group.index);
  for (AccumulatorId id : members) {
    ir::Accumulator& a = dag_.accumulators[id.index];
    a.bucket = BucketId(dag_.buckets.size());
    a.offset = bucket.bytes;
    bucket.bytes += aligned(parameters_[a.parameter].bytes);
  }
  bucket.accumulators = std::move(members);
  members.clear();
  dag_.buckets.push_back(std::move(bucket));
}

void GradientWork::make_buckets() {
  // Later uses of tied parameters stand apart: on ranks that hold the first use too, they have no weights beside them.
  for (size_t c = shapes_.size(); c-- > 0;)
    for (GroupId group : groups_of(ChunkId(c)))
      for (bool later_use : {false, true}) {
        std::vector<AccumulatorId> all;
        for (size_t a = 0; a < dag_.accumulators.size(); ++a) {
          const ir::Accumulator& acc = dag_.accumulators[a];
          if (acc.chunk.index == c && acc.group == group && (acc.use > 0) == later_use) all.push_back(AccumulatorId(a));
        }
        std::sort(all.begin(), all.end(), [&](AccumulatorId x, AccumulatorId y) {
          return dag_.accumulators[x.index].parameter > dag_.accumulators[y.index].parameter;
        });
        const int64_t bound = dag_.replication[c].bucket_bytes;
        std::vector<AccumulatorId> open;
        int64_t filled = 0;
        for (AccumulatorId id : all) {
          const int64_t bytes = parameters_[dag_.accumulators[id.index].parameter].bytes;
          if (bound >= 0 && !open.empty() && filled + bytes > bound) {
            close_bucket(open);
            filled = 0;
          }
          open.push_back(id);
          filled += bytes;
        }
        close_bucket(open);
      }
}

void GradientWork::reduce_buckets() {
  ready_.assign(dag_.buckets.size(), {});
  for (size_t b = 0; b < dag_.buckets.size(); ++b) {
    const ir::Bucket& bucket = dag_.buckets[b];
    const ChunkId chunk = dag_.accumulators[bucket.accumulators[0].index].chunk;
    std::vector<NodeId> backwards;
    for (int32_t m = 0; m < dag_.num_microbatches; ++m)
      if (dag_.placement[chunk.index][m] == bucket.group)
        for (ir::Pass pass : {ir::Pass::kBackward, ir::Pass::kBackwardWeight})
          if (const NodeId n = dag_.compute[chunk.index][static_cast<size_t>(pass)][m]; n.valid()) backwards.push_back(n);
    if (dag_.groups[bucket.group.index].ranks.size() > 1) {
      const NodeId reduce = dag_.add_node(ir::AllReduceNode{ir::Reduced::kBucket, BucketId(b), {}}, bucket.group,
                                          bucket.stream, bucket.prov);
      for (NodeId backward : backwards) dag_.add_edge(backward, reduce);
      ready_[b] = {reduce};
    } else {
      ready_[b] = std::move(backwards);
    }
  }
}

void GradientWork::combine_tied() {
  combined_.assign(parameters_.size(), {});
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const std::vector<AccumulatorId>& uses = dag_.parameter_uses[p];
    if (uses.size() < 2) continue;
    std::vector<GroupId> groups;
    for (AccumulatorId use : uses) {
      const GroupId g = dag_.accumulators[use.index].group;
      if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
    std::vector<ir::ProvId> parents;
    for (AccumulatorId use : uses) parents.push_back(dag_.chunk_prov[dag_.accumulators[use.index].chunk.index]);
    const ir::ProvId prov = dag_.provenance.derived("insert_gradient_work", parents);
    std::vector<NodeId> inputs;
    for (AccumulatorId use : uses) {
      const ir::Accumulator& a = dag_.accumulators[use.index];
      for (NodeId n : ready_[a.bucket.index]) inputs.push_back(n);
      for (GroupId to : groups) {
        const auto& have = dag_.groups[a.group.index].ranks;
        const auto& want = dag_.groups[to.index].ranks;
        const bool needed = std::any_of(want.begin(), want.end(), [&](int32_t r) {
          return std::find(have.begin(), have.end(), r) == have.end();
        });
        if (to == a.group || !needed) continue;
        ir::TransferNode message;
        message.cargo = ir::Cargo::kAccumulator;
        message.accumulator = use;
        message.to = to;
        const NodeId send = dag_.add_node(message, a.group, dag_.chunk_stream[a.chunk.index], prov);
        for (NodeId n : ready_[a.bucket.index]) dag_.add_edge(n, send);
        inputs.push_back(send);
      }
    }
    for (GroupId g : groups) {
      const NodeId sum = dag_.add_node(ir::StepNode{ir::StepWork::kCombine, {}, static_cast<uint32_t>(p)}, g, 0, prov);
      for (NodeId n : inputs) dag_.add_edge(n, sum);
      combined_[p].push_back(sum);
    }
  }
}

void GradientWork::clip() {
  if (!options_.clip) return;
  std::vector<int32_t> world(dag_.world_size);
  std::iota(world.begin(), world.end(), 0);
  const GroupId everyone = dag_.intern_group(world);
  const NodeId part = dag_.add_node(ir::StepNode{ir::StepWork::kNormPart, {}, 0}, everyone, 0, options_.clip_prov);
  for (const auto& nodes : ready_)
    for (NodeId n : nodes) dag_.add_edge(n, part);
  for (const auto& nodes : combined_)
    for (NodeId n : nodes) dag_.add_edge(n, part);
  NodeId norm = part;
  if (world.size() > 1) {
    norm = dag_.add_node(ir::AllReduceNode{ir::Reduced::kNorm, {}, {}}, everyone, dag_.intern_stream("clip"), options_.clip_prov);
    dag_.add_edge(part, norm);
  }
  clip_ = dag_.add_node(ir::StepNode{ir::StepWork::kClip, {}, 0}, everyone, 0, options_.clip_prov);
  dag_.add_edge(norm, clip_);
}

void GradientWork::update() {
  for (size_t b = 0; b < dag_.buckets.size(); ++b) {
    const ir::Bucket bucket = dag_.buckets[b];
    const NodeId update = dag_.add_node(ir::UpdateNode{BucketId(b)}, bucket.group, 0, options_.update_prov);
    for (NodeId n : ready_[b]) dag_.add_edge(n, update);
    if (clip_.valid()) dag_.add_edge(clip_, update);
    for (AccumulatorId id : bucket.accumulators) {
      const uint32_t p = dag_.accumulators[id.index].parameter;
      for (NodeId n : combined_[p]) dag_.add_edge(n, update);
      // Chunks that read the parameter without adding to its gradient.
      for (size_t c = 0; c < shapes_.size(); ++c) {
        if (!std::binary_search(shapes_[c].reads.begin(), shapes_[c].reads.end(), p) ||
            std::binary_search(shapes_[c].gradients.begin(), shapes_[c].gradients.end(), p))
          continue;
        for (const auto& pass : dag_.compute[c])
          for (NodeId n : pass)
            if (n.valid()) dag_.add_edge(n, update);
      }
    }
  }
}

}  // namespace

void insert_gradient_work(ir::Dag& dag, const std::vector<ChunkShape>& shapes, const std::vector<ParameterInfo>& parameters,
                          const GradientOptions& options) {
  PIPER_CHECK(shapes.size() == dag.chunks.size(), "one shape per chunk");
  GradientWork(dag, shapes, parameters, options).run();
}

}  // namespace piper::passes
