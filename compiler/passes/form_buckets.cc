#include "compiler/passes/form_buckets.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::AccumulatorId;
using ir::BucketId;
using ir::ChunkId;
using ir::GroupId;

constexpr int64_t kAlignment = 64;  // bytes: parameters of a bucket start on cache lines

int64_t aligned(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

struct ParameterInfo {
  std::string name;
  int64_t bytes = 0;  // of what is trained, on one rank
  DType dtype = DType::kF32;
  std::optional<DType> working;  // of the copies that programs read
  bool matrix = false;           // its update takes all of it
  bool vector = false;           // of one axis
  int32_t shard = -1;            // which expert shard it belongs to
  int32_t cut = -1;              // of which cut it is a part
  int32_t share = -1;            // over which cut its gradients are shares
};

std::vector<ParameterInfo> parameters_of(const ir::Module& module) {
  std::vector<ParameterInfo> parameters;
  for (const ir::Parameter& p : module.graph().parameters()) {
    const ir::TensorType &read = module.graph().type(p.value), trained = p.trained(read);
    ParameterInfo info{.name = p.names[0],
                       .bytes = trained.bytes(),
                       .dtype = trained.dtype,
                       .matrix = p.matrix,
                       .vector = trained.shape.size() == 1,
                       .shard = p.shard,
                       .cut = p.cut ? p.cut->cut : -1,
                       .share = p.share};
    if (p.master) info.working = read.dtype;
    parameters.push_back(std::move(info));
  }
  return parameters;
}

// Teams that sum, cut into those that keep one set of parts each, and the members that keep the same part.
struct Divided {
  ir::Teams inside, across;
};
// Nothing where the groups leave a member alone or are of several sizes within a team, as experts' teams may be.
std::optional<Divided> divided(const ir::Teams& teams, const ir::Teams& over) {
  Divided result;
  for (const std::vector<int32_t>& team : teams) {
    ir::Teams inside;
    for (const std::vector<int32_t>& group : over) {
      std::vector<int32_t> members;
      for (const int32_t rank : team)
        if (std::find(group.begin(), group.end(), rank) != group.end()) members.push_back(rank);
      if (!members.empty()) inside.push_back(std::move(members));
    }
    if (inside.size() < 2) return std::nullopt;
    for (const std::vector<int32_t>& members : inside)
      if (members.size() < 2 || members.size() != inside[0].size()) return std::nullopt;
    for (size_t place = 0; place < inside[0].size(); ++place) {
      std::vector<int32_t>& same = result.across.emplace_back();
      for (const std::vector<int32_t>& members : inside) same.push_back(members[place]);
    }
    result.inside.insert(result.inside.end(), inside.begin(), inside.end());
  }
  return result;
}

class Buckets {
 public:
  explicit Buckets(ir::Module& module) : module_(module), shapes_(module.shapes), parameters_(parameters_of(module)) {}

  void form() {
    make_accumulators();
    make_buckets();
  }

 private:
  GroupId home_of(ChunkId chunk);
  void make_accumulators();
  void add_accumulator(uint32_t parameter, ChunkId chunk);
  void make_accumulators_of_readers();
  ir::Teams teams_of(const ir::Accumulator& use) const;
  bool parts_add_up(uint32_t parameter) const;
  std::vector<size_t> places_of_parts(const ir::Accumulator& use) const;
  std::vector<bool> find_shardable() const;
  bool is_small(AccumulatorId use) const;
  void make_buckets();
  void close_bucket(std::vector<AccumulatorId>& members, ir::Sharded sharded);
  int64_t put(AccumulatorId id, int64_t offset, int64_t alignment);
  int64_t share_out(std::vector<AccumulatorId>& members, int64_t num_parts, int64_t alignment);

  ir::Module& module_;
  const std::vector<ir::ChunkShape>& shapes_;
  const std::vector<ParameterInfo> parameters_;
  std::vector<bool>
      read_elsewhere_;  // [parameter]: by regions that add nothing to its gradient, on devices of their own
};

// All devices that the chunk runs on. By group id, which follows the model and not the numbers of devices: the order of
// a sum does not depend on these.
GroupId Buckets::home_of(ChunkId chunk) {
  const std::vector<GroupId> groups = module_.distribution.groups_of(chunk);
  return groups.size() == 1 ? groups[0] : module_.distribution.intern_group(module_.distribution.joined(groups));
}

void Buckets::make_accumulators() {
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

void Buckets::add_accumulator(uint32_t parameter, ChunkId chunk) {
  ir::Accumulator a;
  a.parameter = parameter;
  a.chunk = chunk;
  a.chunks = {chunk};
  a.group = home_of(chunk);
  a.bytes = parameters_[parameter].bytes;
  a.use = static_cast<uint32_t>(module_.state.parameter_uses[parameter].size());
  module_.state.parameter_uses[parameter].push_back(AccumulatorId(module_.state.accumulators.size()));
  module_.state.accumulators.push_back(a);
}

// A trained parameter that a region reads and adds nothing to (after detach), on devices where no other region does:
// its sum of zeros is a use like the others, so that the copy there is updated too.
void Buckets::make_accumulators_of_readers() {
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

// Who sums the gradient with whom: members at one place that have the same of the parameter, or all members where each
// place has a share of it. Of experts these are at one position in their expert groups.
ir::Teams Buckets::teams_of(const ir::Accumulator& use) const {
  const ir::Distribution& d = module_.distribution;
  const int32_t shard = parameters_[use.parameter].shard;
  const bool shares = parameters_[use.parameter].share >= 0;
  if (shard < 0) return shares ? ir::Teams{d.ranks(use.group)} : d.columns(use.group);
  const auto& groups = d.expert_groups[shard].groups;
  if (shares) {  // a group has all places, and one of its members the experts
    ir::Teams teams(groups[0].size());
    for (const std::vector<int32_t>& group : groups)
      for (size_t position = 0; position < group.size(); ++position) teams[position].push_back(group[position]);
    return teams;
  }
  const auto places = static_cast<size_t>(d.places(use.group));
  ir::Teams teams(groups[0].size() * places);
  for (const std::vector<int32_t>& group : groups)
    for (size_t position = 0; position < group.size(); ++position) {
      const auto place = static_cast<size_t>(d.place_of_rank(use.group, group[position]));
      teams[position * places + place].push_back(group[position]);
    }
  return teams;
}

// [position in the use's group] which part a member keeps where `parts_over` divides the group.
std::vector<size_t> Buckets::places_of_parts(const ir::Accumulator& use) const {
  const ir::Teams& over = module_.distribution.chunks[use.chunk.index].replication.parts_over;
  std::vector<size_t> places;
  for (const int32_t rank : module_.distribution.ranks(use.group))
    for (const std::vector<int32_t>& group : over)
      if (const auto at = std::find(group.begin(), group.end(), rank); at != group.end())
        places.push_back(static_cast<size_t>(at - group.begin()));
  return places;
}

// Whether the parts of all uses are the same elements, so that each member has its part of the sum: as many replicas
// and places everywhere, and no device with a part of two groups.
bool Buckets::parts_add_up(uint32_t parameter) const {
  const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[parameter];
  if (uses.size() > 1 && parameters_[parameter].shard >= 0) return false;
  for (size_t i = 1; i < uses.size(); ++i) {
    const ir::Accumulator& a = module_.state.accumulators[uses[i].index];
    if (module_.distribution.chunks[a.chunk.index].replication.sharded !=
        module_.distribution.chunks[module_.state.accumulators[uses[0].index].chunk.index].replication.sharded)
      return false;
    const std::vector<int32_t>& ranks = module_.distribution.ranks(a.group);
    for (size_t j = 0; j < i; ++j) {
      const ir::Accumulator& other = module_.state.accumulators[uses[j].index];
      const GroupId before = other.group;
      if (module_.distribution.ranks(before).size() != ranks.size() ||
          module_.distribution.places(before) != module_.distribution.places(a.group) ||
          places_of_parts(a) != places_of_parts(other))
        return false;
      if (before == a.group) continue;
      if (std::any_of(ranks.begin(), ranks.end(),
                      [&](int32_t rank) { return module_.distribution.has_member(before, rank); }))
        return false;
    }
  }
  return !uses.empty();
}

// A parameter of which the parts do not add up, or with readers elsewhere, is kept whole.
std::vector<bool> Buckets::find_shardable() const {
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

int64_t Buckets::put(AccumulatorId id, int64_t offset, int64_t alignment) {
  ir::Accumulator& a = module_.state.accumulators[id.index];
  a.offset = offset;
  return aligned(parameters_[a.parameter].bytes, alignment);
}

// Puts each member whole into one of as many equal parts, the largest first, where the least is: the fullest part has
// at most a third more than in the best division (Graham 1969). The others are filled up. Members end in the order of
// their places. Returns the bytes of a part.
int64_t Buckets::share_out(std::vector<AccumulatorId>& members, int64_t num_parts, int64_t alignment) {
  const auto bytes = [&](AccumulatorId id) {
    return parameters_[module_.state.accumulators[id.index].parameter].bytes;
  };
  std::vector<AccumulatorId> by_size = members;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](AccumulatorId a, AccumulatorId b) { return bytes(a) > bytes(b); });
  std::vector<std::vector<AccumulatorId>> parts(static_cast<size_t>(num_parts));
  std::vector<int64_t> filled(parts.size(), 0);
  for (AccumulatorId id : by_size) {
    const auto least = std::min_element(filled.begin(), filled.end()) - filled.begin();
    parts[static_cast<size_t>(least)].push_back(id);
    filled[static_cast<size_t>(least)] += aligned(bytes(id), alignment);
  }
  const int64_t part = std::max(*std::max_element(filled.begin(), filled.end()), alignment);
  members.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t offset = static_cast<int64_t>(i) * part;
    for (AccumulatorId id : parts[i]) {
      offset += put(id, offset, alignment);
      members.push_back(id);
    }
  }
  return part;
}

// By what is asked wherever it is used: parts of all uses are the same.
bool Buckets::is_small(AccumulatorId use) const {
  const uint32_t parameter = module_.state.accumulators[use.index].parameter;
  const std::vector<AccumulatorId>& uses = module_.state.parameter_uses[parameter];
  return parameters_[parameter].vector && std::all_of(uses.begin(), uses.end(), [&](AccumulatorId id) {
           const ChunkId chunk = module_.state.accumulators[id.index].chunk;
           return parameters_[parameter].bytes < module_.distribution.chunks[chunk.index].replication.whole_below;
         });
}

void Buckets::close_bucket(std::vector<AccumulatorId>& members, ir::Sharded sharded) {
  if (members.empty()) return;
  // Gradients are added up as those of other buckets: the bits are the same however parameters are put into buckets.
  if (std::all_of(members.begin(), members.end(), [&](AccumulatorId use) { return is_small(use); }))
    sharded = std::min(sharded, ir::Sharded::kGradients);
  const ir::Accumulator& first = module_.state.accumulators[members[0].index];
  const ir::Replication& replication = module_.distribution.chunks[first.chunk.index].replication;
  ir::Bucket bucket;
  bucket.group = first.group;
  ir::Teams teams = teams_of(first);
  std::optional<Divided> parts;
  if (sharded != ir::Sharded::kNothing) parts = divided(teams, replication.parts_over);
  if (parts) teams = std::move(parts->inside);
  const auto team = static_cast<int64_t>(teams[0].size());
  bucket.teams = module_.distribution.intern_teams(teams);
  if (parts) bucket.across = module_.distribution.intern_teams(parts->across);
  bucket.team_size = team;
  const auto kept = [&](ir::Sharded from) { return team > 1 && sharded >= from ? ir::Kept::kPart : ir::Kept::kWhole; };
  bucket.moments = kept(ir::Sharded::kOptimizer);
  bucket.gradients = kept(ir::Sharded::kGradients);
  bucket.parameters = kept(ir::Sharded::kParameters);
  bucket.residency = replication.residency;
  bucket.prefetch = replication.prefetch;
  bucket.stream = replication.stream;
  bucket.gather_stream = replication.gather_stream;
  bucket.prov = replication.prov;
  bucket.dtype = parameters_[first.parameter].dtype;
  bucket.working = parameters_[first.parameter].working;
  // So that copies start on cache lines, too.
  const int64_t alignment =
      kAlignment * dtype_bytes(bucket.dtype) / std::min(dtype_bytes(bucket.read()), dtype_bytes(bucket.dtype));
  bucket.name = module_.chunks()[first.chunk.index].name + "/" + parameters_[first.parameter].name;
  bucket.matrices = parameters_[first.parameter].matrix;
  bucket.cut = parameters_[first.parameter].cut >= 0;
  bucket.share = parameters_[first.parameter].share >= 0;
  for (AccumulatorId id : members) module_.state.accumulators[id.index].bucket = BucketId(module_.state.buckets.size());
  if (bucket.matrices && bucket.moments == ir::Kept::kPart) {
    bucket.bytes = team * share_out(members, team, alignment);
  } else {
    for (AccumulatorId id : members) bucket.bytes += put(id, bucket.bytes, alignment);
    if (bucket.moments == ir::Kept::kPart) bucket.bytes = aligned(bucket.bytes, team * alignment);
  }
  bucket.accumulators = std::move(members);
  members.clear();
  module_.state.buckets.push_back(std::move(bucket));
}

// Buckets of a region, from its last parameter to its first. Parameters that cannot share a layout are separate: later
// uses of tied ones (on ranks that hold the first use too, they have no weights beside them), ones kept whole beside
// sharded ones, sharded ones that are used elsewhere too (each alone, so that its parts are the same everywhere), ones
// summed by other teams, ones of which each place has a part, ones that are updated as whole matrices. Ones that
// several segments add to are ready late, and would keep the others waiting.
void Buckets::make_buckets() {
  const std::vector<bool> shardable = find_shardable();
  // region, later use, kept whole, expert shard, cut, share, spread, alone, types of what is trained and read, matrices
  using Key = std::tuple<int32_t, bool, bool, int32_t, int32_t, int32_t, bool, int64_t, DType, DType, bool>;
  std::map<Key, std::vector<AccumulatorId>> classes;
  for (size_t i = 0; i < module_.state.accumulators.size(); ++i) {
    const ir::Accumulator& a = module_.state.accumulators[i];
    const bool sharded = module_.distribution.chunks[a.chunk.index].replication.sharded != ir::Sharded::kNothing;
    classes[{-module_.chunks()[a.chunk.index].region, a.use > 0, sharded && !shardable[a.parameter],
             parameters_[a.parameter].shard, parameters_[a.parameter].cut, parameters_[a.parameter].share,
             a.chunks.size() > 1,
             sharded && shardable[a.parameter] && module_.state.parameter_uses[a.parameter].size() > 1 ? a.parameter
                                                                                                       : -1,
             parameters_[a.parameter].dtype, parameters_[a.parameter].working.value_or(parameters_[a.parameter].dtype),
             parameters_[a.parameter].matrix}]
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

}  // namespace

void form_buckets(ir::Module& module) {
  PIPER_CHECK(module.shapes.size() == module.chunks().size(), "one shape per chunk");
  Buckets(module).form();
}

}  // namespace piper::passes
