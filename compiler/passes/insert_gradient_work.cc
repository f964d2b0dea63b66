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

struct ParameterInfo {
  std::string name;
  int64_t bytes = 0;                        // on one rank
  int32_t shard = -1;                       // which expert shard it belongs to
  std::vector<std::vector<int32_t>> teams;  // who sums its gradient with whom; empty: all ranks of a use's group
};

std::vector<ParameterInfo> parameters_of(const ir::Module& module) {
  std::vector<ParameterInfo> parameters;
  for (const ir::Parameter& p : module.graph().parameters()) {
    ParameterInfo info{p.names[0], module.graph().type(p.value).bytes(), p.shard, {}};
    if (p.shard >= 0) {
      // Position by position across the expert groups.
      const auto& groups = module.distribution.expert_groups[p.shard].groups;
      info.teams.resize(groups[0].size());
      for (const std::vector<int32_t>& group : groups)
        for (size_t position = 0; position < group.size(); ++position) info.teams[position].push_back(group[position]);
    }
    parameters.push_back(std::move(info));
  }
  return parameters;
}

class GradientWork {
 public:
  explicit GradientWork(ir::Module& module)
      : module_(module), shapes_(module.shapes), parameters_(parameters_of(module)) {}

  void run() {
    make_accumulators();
    make_buckets();
    reduce_buckets();
    combine_tied();
    clip();
    update();
  }

 private:
  GroupId home_of(ChunkId chunk);
  void make_accumulators();
  void add_accumulator(uint32_t parameter, ChunkId chunk);
  void make_accumulators_of_readers();
  bool parts_add_up(uint32_t parameter) const;
  std::vector<bool> find_shardable() const;
  bool holds_weights(const ir::Bucket& bucket) const;
  void make_buckets();
  void close_bucket(std::vector<AccumulatorId>& members, ir::Sharded sharded);
  void reduce_buckets();
  void combine_tied();
  void clip();
  void update();

  ir::Module& module_;
  const std::vector<ir::ChunkShape>& shapes_;
  const std::vector<ParameterInfo> parameters_;
  std::vector<bool>
      read_elsewhere_;  // [parameter]: by regions that add nothing to its gradient, on devices of their own
  std::vector<std::vector<NodeId>> ready_;     // [bucket]: after these its gradients are final on their group
  std::vector<std::vector<NodeId>> combined_;  // [parameter]: combine nodes of a tied parameter
  NodeId clip_;
};

// All devices that the chunk runs on. By group id, which follows the model and not the numbers of devices: the order of
// a sum does not depend on these.
GroupId GradientWork::home_of(ChunkId chunk) {
  const std::vector<GroupId> groups = module_.distribution.groups_of(chunk);
  if (groups.size() == 1) return groups[0];
  std::vector<int32_t> ranks;
  for (GroupId group : groups) {
    const std::vector<int32_t>& members = module_.distribution.groups[group.index].ranks;
    ranks.insert(ranks.end(), members.begin(), members.end());
  }
  return module_.distribution.intern_group(ranks);
}

void GradientWork::make_accumulators() {
  module_.state.parameter_uses.assign(parameters_.size(), {});
  for (size_t c = 0; c < shapes_.size(); ++c)
    for (uint32_t p : shapes_[c].gradients) {
      const AccumulatorId known = module_.find_accumulator(p, ChunkId(c));
      if (known.valid()) {
        module_.state.accumulators[known.index].chunks.push_back(ChunkId(c));
        continue;
      }
      add_accumulator(p, ChunkId(c));
    }
  make_accumulators_of_readers();
}

void GradientWork::add_accumulator(uint32_t parameter, ChunkId chunk) {
  ir::Accumulator a;
  a.parameter = parameter;
  a.chunk = chunk;
  a.chunks = {chunk};
  a.group = home_of(chunk);
  a.use = static_cast<uint32_t>(module_.state.parameter_uses[parameter].size());
  module_.state.parameter_uses[parameter].push_back(AccumulatorId(module_.state.accumulators.size()));
  module_.state.accumulators.push_back(a);
}

// A trained parameter that a region reads and adds nothing to (behind detach), on devices where no other region does:
// its sum of zeros is a use like the others, so that the copy there is updated too.
void GradientWork::make_accumulators_of_readers() {
  read_elsewhere_.assign(parameters_.size(), false);
  for (size_t c = 0; c < shapes_.size(); ++c)
    for (uint32_t p : shapes_[c].reads) {
      const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[p];
      if (uses.empty()) continue;
      const auto& ranks = module_.distribution.groups[home_of(ChunkId(c)).index].ranks;
      const bool alone = std::any_of(ranks.begin(), ranks.end(), [&](int32_t rank) {
        return std::none_of(uses.begin(), uses.end(), [&](AccumulatorId use) {
          return module_.distribution.has_member(module_.state.accumulators[use.index].group, rank);
        });
      });
      if (!alone) continue;
      add_accumulator(p, ChunkId(c));
      read_elsewhere_[p] = true;
    }
}

// Whether the parts of all uses are the same elements, so that each member has its part of the sum: as many members
// everywhere, and no device with a part of two groups.
bool GradientWork::parts_add_up(uint32_t parameter) const {
  const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[parameter];
  if (uses.size() > 1 && parameters_[parameter].shard >= 0) return false;
  for (size_t i = 1; i < uses.size(); ++i) {
    const ir::Accumulator& a = module_.state.accumulators[uses[i].index];
    if (module_.distribution.chunks[a.chunk.index].replication.sharded !=
        module_.distribution.chunks[module_.state.accumulators[uses[0].index].chunk.index].replication.sharded)
      return false;
    const std::vector<int32_t>& ranks = module_.distribution.groups[a.group.index].ranks;
    for (size_t j = 0; j < i; ++j) {
      const GroupId before = module_.state.accumulators[uses[j].index].group;
      if (before == a.group) continue;
      if (module_.distribution.groups[before.index].ranks.size() != ranks.size()) return false;
      if (std::any_of(ranks.begin(), ranks.end(),
                      [&](int32_t rank) { return module_.distribution.has_member(before, rank); }))
        return false;
    }
  }
  return !uses.empty();
}

// A parameter of which the parts do not add up, or with readers elsewhere, is kept whole.
std::vector<bool> GradientWork::find_shardable() const {
  std::vector<bool> shardable;
  for (uint32_t p = 0; p < parameters_.size(); ++p) shardable.push_back(parts_add_up(p) && !read_elsewhere_[p]);
  for (size_t c = 0; c < shapes_.size(); ++c)
    for (uint32_t p : shapes_[c].reads) {
      const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[p];
      shardable[p] = shardable[p] && std::any_of(uses.begin(), uses.end(), [&](AccumulatorId use) {
                       return module_.distribution.groups_of(ChunkId(c)) ==
                              module_.distribution.groups_of(module_.state.accumulators[use.index].chunk);
                     });
    }
  return shardable;
}

// Whether the weights that the bucket's gradients belong to stand in its layout. Those of a parameter that one group
// uses twice stand in that of the first use.
bool GradientWork::holds_weights(const ir::Bucket& bucket) const {
  return std::any_of(bucket.accumulators.begin(), bucket.accumulators.end(), [&](AccumulatorId id) {
    const ir::Accumulator& a = module_.state.accumulators[id.index];
    const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[a.parameter];
    return std::none_of(uses.begin(), uses.begin() + a.use, [&](AccumulatorId before) {
      return module_.state.accumulators[before.index].group == a.group;
    });
  });
}

void GradientWork::close_bucket(std::vector<AccumulatorId>& members, ir::Sharded sharded) {
  if (members.empty()) return;
  const ir::Accumulator& first = module_.state.accumulators[members[0].index];
  const ir::Replication& replication = module_.distribution.chunks[first.chunk.index].replication;
  ir::Bucket bucket;
  bucket.group = first.group;
  bucket.teams = parameters_[first.parameter].teams;
  if (bucket.teams.empty()) bucket.teams = {module_.distribution.groups[first.group.index].ranks};
  const auto team = static_cast<int64_t>(bucket.teams[0].size());
  bucket.sharded = team > 1 ? sharded : ir::Sharded::kNothing;
  bucket.residency = replication.residency;
  bucket.prefetch = replication.prefetch;
  bucket.stream = replication.stream;
  bucket.gather_stream = replication.gather_stream;
  bucket.prov = replication.prov;
  bucket.name = module_.chunks()[first.chunk.index].name + "/" + parameters_[first.parameter].name;
  for (AccumulatorId id : members) {
    ir::Accumulator& a = module_.state.accumulators[id.index];
    a.bucket = BucketId(module_.state.buckets.size());
    a.offset = bucket.bytes;
    bucket.bytes += aligned(parameters_[a.parameter].bytes);
  }
  if (bucket.sharded != ir::Sharded::kNothing)
    bucket.bytes = (bucket.bytes + team * kAlignment - 1) / (team * kAlignment) * (team * kAlignment);
  bucket.accumulators = std::move(members);
  members.clear();
  module_.state.buckets.push_back(std::move(bucket));
}

// Buckets of a region, from its last parameter to its first. Parameters that cannot share a layout stand apart: later
// uses of tied ones (on ranks that hold the first use too, they have no weights beside them), ones kept whole beside
// sharded ones, sharded ones that are used elsewhere too (each alone, so that its parts are the same everywhere), ones
// summed by other teams. Ones that several segments add to are ready late, and would keep the others waiting.
void GradientWork::make_buckets() {
  const std::vector<bool> shardable = find_shardable();
  using Key = std::tuple<int32_t, bool, bool, int32_t, bool,
                         int64_t>;  // region, later use, kept whole, expert shard, spread, alone
  std::map<Key, std::vector<AccumulatorId>> classes;
  for (size_t i = 0; i < module_.state.accumulators.size(); ++i) {
    const ir::Accumulator& a = module_.state.accumulators[i];
    const bool sharded = module_.distribution.chunks[a.chunk.index].replication.sharded != ir::Sharded::kNothing;
    classes[{-module_.chunks()[a.chunk.index].region, a.use > 0, sharded && !shardable[a.parameter],
             parameters_[a.parameter].shard, a.chunks.size() > 1,
             sharded && shardable[a.parameter] && module_.state.parameter_uses[a.parameter].size() > 1 ? a.parameter
                                                                                                       : -1}]
        .push_back(AccumulatorId(i));
  }
  for (auto& [key, all] : classes) {
    std::sort(all.begin(), all.end(), [&](AccumulatorId x, AccumulatorId y) {
      const ir::Accumulator &a = module_.state.accumulators[x.index], &b = module_.state.accumulators[y.index];
      return std::make_tuple(b.chunk.index, b.parameter) < std::make_tuple(a.chunk.index, a.parameter);
    });
    const ir::Replication& replication =
        module_.distribution.chunks[module_.state.accumulators[all[0].index].chunk.index].replication;
    const ir::Sharded sharded = std::get<2>(key) ? ir::Sharded::kNothing : replication.sharded;
    std::vector<AccumulatorId> open;
    int64_t filled = 0;
    for (AccumulatorId id : all) {
      const int64_t bytes = parameters_[module_.state.accumulators[id.index].parameter].bytes;
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
          if (const NodeId n = module_.dag.compute[c.index][static_cast<size_t>(pass)][m]; n.valid())
            backwards.push_back(n);
    };
    auto reduce_after = [&](const std::vector<NodeId>& backwards, ir::NodePayload payload) {
      const NodeId reduce = module_.dag.add_node(std::move(payload), bucket.group, bucket.stream, bucket.prov);
      for (NodeId backward : backwards) module_.dag.add_edge(backward, reduce);
      ready_[b].push_back(reduce);
    };
    if (bucket.sharded >= ir::Sharded::kGradients) {
      // The first microbatches of all groups together, then the second ones, and so on.
      std::map<int32_t, std::vector<int32_t>> rounds;
      for (int32_t m = 0; m < module_.step.num_microbatches; ++m)
        rounds[module_.distribution.round_of(chunks[0], m)].push_back(m);
      for (auto& [round, microbatches] : rounds) {
        std::vector<NodeId> backwards;
        for (int32_t m : microbatches) backwards_of(m, backwards);
        reduce_after(backwards, ir::ReduceScatterNode{BucketId(b), std::move(microbatches)});
      }
      continue;
    }
    std::vector<NodeId> backwards;
    for (int32_t m = 0; m < module_.step.num_microbatches; ++m) backwards_of(m, backwards);
    if (bucket.sharded == ir::Sharded::kOptimizer) reduce_after(backwards, ir::ReduceScatterNode{BucketId(b), {}});
    else if (bucket.teams[0].size() > 1)
      reduce_after(backwards, ir::AllReduceNode{ir::Reduced::kBucket, BucketId(b), {}});
    else ready_[b] = std::move(backwards);
  }
}

void GradientWork::combine_tied() {
  combined_.assign(parameters_.size(), {});
  for (size_t p = 0; p < parameters_.size(); ++p) {
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
        const auto& have = module_.distribution.groups[a.group.index].ranks;
        const auto& want = module_.distribution.groups[to.index].ranks;
        const bool needed = std::any_of(
            want.begin(), want.end(), [&](int32_t r) { return std::find(have.begin(), have.end(), r) == have.end(); });
        if (to == a.group || !needed) continue;
        ir::TransferNode message;
        message.cargo = ir::Cargo::kAccumulator;
        message.accumulator = use;
        message.to = to;
        const NodeId send =
            module_.dag.add_node(message, a.group, module_.distribution.chunks[a.chunk.index].message_stream, prov);
        for (NodeId n : ready_[a.bucket.index]) module_.dag.add_edge(n, send);
        inputs.push_back(send);
      }
    }
    for (GroupId g : groups) {
      const NodeId sum =
          module_.dag.add_node(ir::StepNode{ir::StepWork::kCombine, {}, static_cast<uint32_t>(p)}, g, 0, prov);
      for (NodeId n : inputs) module_.dag.add_edge(n, sum);
      combined_[p].push_back(sum);
    }
  }
}

void GradientWork::clip() {
  if (!module_.training.clips()) return;
  std::vector<int32_t> world(module_.distribution.world_size);
  std::iota(world.begin(), world.end(), 0);
  const GroupId everyone = module_.distribution.intern_group(world);
  const NodeId part =
      module_.dag.add_node(ir::StepNode{ir::StepWork::kNormPart, {}, 0}, everyone, 0, module_.training.clip_prov);
  for (const auto& nodes : ready_)
    for (NodeId n : nodes) module_.dag.add_edge(n, part);
  for (const auto& nodes : combined_)
    for (NodeId n : nodes) module_.dag.add_edge(n, part);
  NodeId norm = part;
  if (world.size() > 1) {
    norm = module_.dag.add_node(ir::AllReduceNode{ir::Reduced::kNorm, {}, {}}, everyone,
                                module_.distribution.intern_stream("clip"), module_.training.clip_prov);
    module_.dag.add_edge(part, norm);
  }
  clip_ = module_.dag.add_node(ir::StepNode{ir::StepWork::kClip, {}, 0}, everyone, 0, module_.training.clip_prov);
  module_.dag.add_edge(norm, clip_);
}

void GradientWork::update() {
  for (size_t b = 0; b < module_.state.buckets.size(); ++b) {
    const ir::Bucket bucket = module_.state.buckets[b];
    const NodeId update =
        module_.dag.add_node(ir::UpdateNode{BucketId(b)}, bucket.group, 0, module_.training.update_prov);
    for (NodeId n : ready_[b]) module_.dag.add_edge(n, update);
    if (clip_.valid()) module_.dag.add_edge(clip_, update);
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
    if ((bucket.sharded == ir::Sharded::kOptimizer || bucket.sharded == ir::Sharded::kGradients) &&
        holds_weights(bucket)) {
      ir::AllGatherNode gather;
      gather.bucket = BucketId(b);
      gather.updated = true;
      module_.dag.add_edge(update, module_.dag.add_node(gather, bucket.group, bucket.gather_stream, bucket.prov));
    }
  }
}

}  // namespace

void insert_gradient_work(ir::Module& module) {
  PIPER_CHECK(module.shapes.size() == module.chunks().size(), "one shape per chunk");
  GradientWork(module).run();
}

}  // namespace piper::passes
