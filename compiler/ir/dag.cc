#include "compiler/ir/dag.h"

#include <algorithm>

#include "schemas/base/check.h"

namespace piper::ir {

std::string_view pass_name(Pass pass, bool backward_split) {
  switch (pass) {
    case Pass::kCount: return "C";
    case Pass::kForward: return "F";
    case Pass::kBackward: return backward_split ? "BI" : "B";
    case Pass::kBackwardWeight: return "BW";
  }
  return "";
}

uint32_t Dag::compute_stream(size_t chunk, Pass pass, int32_t microbatch) const {
  if (streams_of_compute.empty()) return 0;
  const auto it = streams_of_compute.find({static_cast<uint32_t>(chunk), pass, microbatch});
  return it == streams_of_compute.end() ? 0 : it->second;
}

NodeId Dag::add_node(NodePayload payload, GroupId group, uint32_t stream, ProvId prov) {
  nodes.push_back({std::move(payload), group, stream, prov});
  return NodeId(nodes.size() - 1);
}

void Dag::add_edge(NodeId from, NodeId to, EdgeKind kind, diag::Span span) { edges.push_back({from, to, kind, span}); }

void Dag::fuse_chunks(const std::vector<ChunkId>& into) {
  const size_t fused = into.empty() ? 0 : into.back().index + 1;
  const auto keep_first = [&](auto& of_chunk) {
    for (size_t c = 0; c < into.size(); ++c)
      if (into[c].index != c && into[c] != into[c - 1]) of_chunk[into[c].index] = std::move(of_chunk[c]);
    of_chunk.resize(fused);
  };
  keep_first(placement);
  keep_first(chunk_stream);
  keep_first(chunk_prov);
  keep_first(replication);
  keep_first(recomputed);
  keep_first(backward_split);
  decltype(streams_of_compute) streams;
  for (const auto& [at, stream] : streams_of_compute)
    streams.emplace(std::make_tuple(into[std::get<0>(at)].index, std::get<1>(at), std::get<2>(at)), stream);
  streams_of_compute = std::move(streams);
}

GroupId Dag::intern_group(const std::vector<int32_t>& ranks) {
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].ranks == ranks) return GroupId(g);
  groups.push_back({ranks});
  return GroupId(groups.size() - 1);
}

uint32_t Dag::intern_stream(const std::string& name) {
  for (size_t s = 0; s < streams.size(); ++s)
    if (streams[s] == name) return static_cast<uint32_t>(s);
  streams.push_back(name);
  return static_cast<uint32_t>(streams.size() - 1);
}

AccumulatorId Dag::find_accumulator(uint32_t parameter, ChunkId chunk) const {
  for (AccumulatorId use : parameter_uses[parameter])
    if (chunks[accumulators[use.index].chunk.index].region == chunks[chunk.index].region) return use;
  return {};
}

std::vector<GroupId> Dag::groups_of(ChunkId chunk) const {
  std::vector<GroupId> found = placement[chunk.index];
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int32_t Dag::round_of(ChunkId chunk, int32_t microbatch) const {
  const std::vector<GroupId>& row = placement[chunk.index];
  return static_cast<int32_t>(std::count(row.begin(), row.begin() + microbatch, row[microbatch]));
}

bool Dag::has_member(GroupId group, int32_t rank) const {
  const std::vector<int32_t>& ranks = groups[group.index].ranks;
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

const ComputeNode* chunk_pass(const NodePayload& payload) {
  if (const auto* compute = std::get_if<ComputeNode>(&payload)) return compute;
  if (const auto* exchange = std::get_if<ExchangeNode>(&payload)) return &exchange->at;
  return nullptr;
}

const std::vector<int32_t>& Dag::expert_group_of(int32_t shard, int32_t rank) const {
  for (const std::vector<int32_t>& group : expert_groups[shard].groups)
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
  PIPER_CHECK(false, "rank ", rank, " is in no group of expert shard ", shard);
  return expert_groups[shard].groups.front();
}

const std::vector<int32_t>& Dag::team_of(const Bucket& bucket, int32_t rank) const {
  for (const std::vector<int32_t>& team : bucket.teams)
    if (std::find(team.begin(), team.end(), rank) != team.end()) return team;
  PIPER_CHECK(false, "rank ", rank, " has no part in bucket ", bucket.name);
  return bucket.teams.front();
}

std::string Dag::describe(NodeId id) const {
  struct Text {
    const Dag& dag;
    std::string operator()(const ComputeNode& n) const {
      std::string text =
          std::string(pass_name(n.pass, dag.backward_split[n.chunk.index])) + " of " + dag.chunks[n.chunk.index].name;
      if (dag.split) text += ", microbatch " + std::to_string(n.microbatch);
      return text;
    }
    std::string operator()(const StepNode& n) const {
      switch (n.work) {
        case StepWork::kCountFinish: return "count of " + dag.chunks[n.chunk.index].name;
        case StepWork::kLossFinish: return "loss of the step";
        case StepWork::kDroppedFinish: return "number of dropped rows";
        case StepWork::kCombine: return "sum of a tied parameter's gradients";
        case StepWork::kNormPart: return "gradient norms";
        case StepWork::kClip: return "gradient clipping";
      }
      return "";
    }
    std::string operator()(const TransferNode& n) const {
      switch (n.cargo) {
        case Cargo::kValue: return "transfer of a value, microbatch " + std::to_string(n.microbatch);
        case Cargo::kAccumulator: return "transfer of a tied parameter's gradient";
        case Cargo::kLoss: return "transfer of the loss";
      }
      return "";
    }
    std::string operator()(const AllReduceNode& n) const {
      switch (n.what) {
        case Reduced::kBucket: return "all_reduce of " + dag.buckets[n.bucket.index].name;
        case Reduced::kCount: return "all_reduce of a count";
        case Reduced::kLoss: return "all_reduce of the loss";
        case Reduced::kDropped: return "all_reduce of the number of dropped rows";
        case Reduced::kNorm: return "all_reduce of the gradient norms";
      }
      return "";
    }
    std::string operator()(const ReduceScatterNode& n) const {
      std::string text = "reduce_scatter of " + dag.buckets[n.bucket.index].name;
      for (size_t i = 0; i < n.microbatches.size(); ++i)
        text += (i == 0 ? ", microbatch " : " and ") + std::to_string(n.microbatches[i]);
      return text;
    }
    std::string operator()(const AllGatherNode& n) const {
      std::string text = "all_gather of " + dag.buckets[n.bucket.index].name;
      for (size_t i = 0; i < n.readers.size(); ++i) text += (i == 0 ? " for " : " and ") + (*this)(n.readers[i]);
      return text;
    }
    std::string operator()(const ExchangeNode& n) const { return "all_to_all " + (*this)(n.at); }
    std::string operator()(const UpdateNode& n) const { return "update of " + dag.buckets[n.bucket.index].name; }
  };
  return std::visit(Text{*this}, nodes[id.index].payload);
}

}  // namespace piper::ir
