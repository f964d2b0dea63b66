#include "compiler/passes/insert_gradient_work.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

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
  std::vector<bool> find_shardable() const;
  void make_buckets();
  void close_bucket(std::vector<AccumulatorId>& members, ir::Sharded sharded);
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
        const AccumulatorId known = dag_.find_accumulator(p, ChunkId(c), group);
        if (known.valid()) {
          dag_.accumulators[known.index].chunks.push_back(ChunkId(c));
          continue;
        }
        ir::Accumulator a;
        a.parameter = p;
        a.chunk = ChunkId(c);
        a.chunks = {ChunkId(c)};
        a.group = group;
        a.use = static_cast<uint32_t>(dag_.parameter_uses[p].size());
        dag_.parameter_uses[p].push_back(AccumulatorId(dag_.accumulators.size()));
        dag_.accumulators.push_back(a);
      }
}

// A parameter with several uses, or with readers elsewhere, is kept whole: parts of different layouts could not be added up.
std::vector<bool> GradientWork::find_shardable() const {
  std::vector<bool> shardable(parameters_.size(), true);
  for (size_t p = 0; p < parameters_.size(); ++p) shardable[p] = dag_.parameter_uses[p].size() == 1;
  for (size_t c = 0; c < shapes_.size(); ++c)
    for (uint32_t p : shapes_[c].reads)
      for (GroupId group : dag_.placement[c])
        if (shardable[p] && dag_.accumulators[dag_.parameter_uses[p][0].index].group != group) shardable[p] = false;
  return shardable;
}

void GradientWork::close_bucket(std::vector<AccumulatorId>& members, ir::Sharded sharded) {
  if (members.empty()) return;
  const ir::Accumulator& first = dag_.accumulators[members[0].index];
  const ir::Replication& replication = dag_.replication[first.chunk.index];
  ir::Bucket bucket;
  bucket.group = first.group;
  bucket.teams = parameters_[first.parameter].teams;
  if (bucket.teams.empty()) bucket.teams = {dag_.groups[first.group.index].ranks};
  const auto team = static_cast<int64_t>(bucket.teams[0].size());
  bucket.sharded = team > 1 ? sharded : ir::Sharded::kNothing;
  bucket.residency = replication.residency;
  bucket.prefetch = replication.prefetch;
  bucket.stream = replication.stream;
  bucket.gather_stream = replication.gather_stream;
  bucket.prov = replication.prov;
  bucket.name = dag_.chunks[first.chunk.index].name + "/" + parameters_[first.parameter].name;
  if (dag_.placement[first.chunk.index].front() != first.group) bucket.name += "@" + std::to_string(first.group.index);
  for (AccumulatorId id : members) {
    ir::Accumulator& a = dag_.accumulators[id.index];
    a.bucket = BucketId(dag_.buckets.size());
    a.offset = bucket.bytes;
    bucket.bytes += aligned(parameters_[a.parameter].bytes);
  }
  if (bucket.sharded != ir::Sharded::kNothing) bucket.bytes = (bucket.bytes + team * kAlignment - 1) / (team * kAlignment) * (team * kAlignment);
  bucket.accumulators = std::move(members);
  members.clear();
  dag_.buckets.push_back(std::move(bucket));
}

// Buckets of a region on a group, from its last parameter to its first. Parameters that cannot share a layout stand apart: later uses of tied ones (on
// ranks that hold the first use too, they have no weights beside them), ones kept whole beside sharded ones, ones summed by other teams. Ones that several
// segments add to are ready late, and would keep the others waiting.
void GradientWork::make_buckets() {
  const std::vector<bool> shardable = find_shardable();
  using Key = std::tuple<int32_t, size_t, bool, bool, int32_t, bool>;   // region, group in its order, later use, kept whole, expert shard, spread
  std::map<Key, std::vector<AccumulatorId>> classes;
  for (size_t i = 0; i < dag_.accumulators.size(); ++i) {
    const ir::Accumulator& a = dag_.accumulators[i];
    const std::vector<GroupId> groups = groups_of(a.chunk);
    const auto group = static_cast<size_t>(std::find(groups.begin(), groups.end(), a.group) - groups.begin());
    const bool sharded = dag_.replication[a.chunk.index].sharded != ir::Sharded::kNothing;
    classes[{-dag_.chunks[a.chunk.index].region, group, a.use > 0, sharded && !shardable[a.parameter], parameters_[a.parameter].shard,
             a.chunks.size() > 1}]
        .push_back(AccumulatorId(i));
  }
  for (auto& [key, all] : classes) {
    std::sort(all.begin(), all.end(), [&](AccumulatorId x, AccumulatorId y) {
      const ir::Accumulator &a = dag_.accumulators[x.index], &b = dag_.accumulators[y.index];
      return std::make_tuple(b.chunk.index, b.parameter) < std::make_tuple(a.chunk.index, a.parameter);
    });
    const ir::Replication& replication = dag_.replication[dag_.accumulators[all[0].index].chunk.index];
    const ir::Sharded sharded = std::get<3>(key) ? ir::Sharded::kNothing : replication.sharded;
    std::vector<AccumulatorId> open;
    int64_t filled = 0;
    for (AccumulatorId id : all) {
      const int64_t bytes = parameters_[dag_.accumulators[id.index].parameter].bytes;
      if (replication.bucket_bytes >= 0 && !open.empty() && filled + bytes > replication.bucket_bytes) {
        close_bucket(open, sharded);
        filled = 0;
      }
      open.push_back(id);
      filled += bytes;
    }
    close_bucket(open, sharded);
  }
}

void GradientWork::reduce_buckets() {
  ready_.assign(dag_.buckets.size(), {});
  for (size_t b = 0; b < dag_.buckets.size(); ++b) {
    const ir::Bucket bucket = dag_.buckets[b];
    std::vector<ChunkId> chunks;
    for (AccumulatorId id : bucket.accumulators)
      for (ChunkId c : dag_.accumulators[id.index].chunks)
        if (std::find(chunks.begin(), chunks.end(), c) == chunks.end()) chunks.push_back(c);
    auto backwards_of = [&](int32_t m, std::vector<NodeId>& backwards) {
      for (ChunkId c : chunks) {
        if (dag_.placement[c.index][m] != bucket.group) continue;
        for (ir::Pass pass : {ir::Pass::kBackward, ir::Pass::kBackwardWeight})
          if (const NodeId n = dag_.compute[c.index][static_cast<size_t>(pass)][m]; n.valid()) backwards.push_back(n);
      }
    };
    auto reduce_after = [&](const std::vector<NodeId>& backwards, ir::NodePayload payload) {
      const NodeId reduce = dag_.add_node(std::move(payload), bucket.group, bucket.stream, bucket.prov);
      for (NodeId backward : backwards) dag_.add_edge(backward, reduce);
      ready_[b].push_back(reduce);
    };
    if (bucket.sharded >= ir::Sharded::kGradients) {
      for (int32_t m = 0; m < dag_.num_microbatches; ++m) {
        std::vector<NodeId> backwards;
        backwards_of(m, backwards);
        if (!backwards.empty()) reduce_after(backwards, ir::ReduceScatterNode{BucketId(b), m});
      }
      continue;
    }
    std::vector<NodeId> backwards;
    for (int32_t m = 0; m < dag_.num_microbatches; ++m) backwards_of(m, backwards);
    if (bucket.sharded == ir::Sharded::kOptimizer)
      reduce_after(backwards, ir::ReduceScatterNode{BucketId(b), -1});
    else if (bucket.teams[0].size() > 1)
      reduce_after(backwards, ir::AllReduceNode{ir::Reduced::kBucket, BucketId(b), {}});
    else
      ready_[b] = std::move(backwards);
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
    if (bucket.sharded == ir::Sharded::kOptimizer || bucket.sharded == ir::Sharded::kGradients) {
      ir::AllGatherNode gather;
      gather.bucket = BucketId(b);
      gather.updated = true;
      dag_.add_edge(update, dag_.add_node(gather, bucket.group, bucket.gather_stream, bucket.prov));
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
