// Checks the rules of verify_state.h.
#include "compiler/ir/verify_state.h"

#include <algorithm>

#include "compiler/ir/verify_parts.h"

namespace piper::ir {
namespace {

class StateVerifier {
 public:
  explicit StateVerifier(const Module& module) : module_(module), state_(module.state) {}

  Status run() {
    for (size_t a = 0; a < state_.accumulators.size(); ++a)
      PIPER_RETURN_IF_ERROR(accumulator(AccumulatorId(a), state_.accumulators[a]));
    for (const Bucket& b : state_.buckets) PIPER_RETURN_IF_ERROR(bucket(b).with_context("bucket " + b.name));
    for (const auto& [read, node] : state_.gathers) PIPER_RETURN_IF_ERROR(gather(read.first, read.second, node));
    return owners();
  }

 private:
  Status accumulator(AccumulatorId id, const Accumulator& a) const {
    const std::string name = "accumulator " + std::to_string(id.index);
    for (ChunkId chunk : a.chunks)
      if (chunk.index >= module_.chunks().size()) return broken(kRuleAccumulators, name + " is of no chunk");
    if (a.group.index >= module_.distribution.groups.size()) return broken(kRuleAccumulators, name + " is of no group");
    if (a.bucket.index >= state_.buckets.size()) return broken(kRuleAccumulators, name + " is in no bucket");
    const std::vector<AccumulatorId>& members = state_.buckets[a.bucket.index].accumulators;
    if (std::find(members.begin(), members.end(), id) == members.end())
      return broken(kRuleAccumulators, name + " is not among those of its bucket");
    return {};
  }

  Status bucket(const Bucket& b) const {
    int64_t end = 0;
    for (AccumulatorId id : b.accumulators) {
      if (id.index >= state_.accumulators.size()) return broken(kRuleAccumulators, "there is no such accumulator");
      const Accumulator& a = state_.accumulators[id.index];
      if (a.offset < end || a.bytes < 0 || a.bytes > b.bytes - a.offset)
        return broken(kRuleOffsets,
                      "accumulator " + std::to_string(id.index) + " overlaps others or leaves its bucket");
      end = a.offset + a.bytes;
    }
    PIPER_RETURN_IF_ERROR(types(b));
    PIPER_RETURN_IF_ERROR(teams(b));
    const bool in_order = (b.gradients == Kept::kWhole || b.moments == Kept::kPart) &&
                          (b.parameters == Kept::kWhole || b.gradients == Kept::kPart);
    if (!in_order) return broken(kRuleParts, "something is kept in parts, and what comes before it whole");
    if (b.moments == Kept::kPart && (b.team_size < 2 || b.bytes % (b.team_size * dtype_bytes(b.dtype)) != 0))
      return broken(kRuleParts,
                    std::to_string(b.bytes) + " bytes in " + std::to_string(b.team_size) + " parts of whole elements");
    if (b.moments == Kept::kPart && b.matrices)
      for (AccumulatorId id : b.accumulators) {
        const Accumulator& a = state_.accumulators[id.index];
        if (a.bytes > 0 && a.offset / b.part_bytes() != (a.offset + a.bytes - 1) / b.part_bytes())
          return broken(kRuleParts, "accumulator " + std::to_string(id.index) + " is a matrix in several parts");
      }
    return {};
  }

  Status types(const Bucket& b) const {
    const auto& parameters = module_.graph().parameters();
    for (AccumulatorId id : b.accumulators) {
      const uint32_t p = state_.accumulators[id.index].parameter;
      if (p >= parameters.size()) return broken(kRuleAccumulators, "there is no such parameter");
      const DType read = module_.graph().type(parameters[p].value).dtype;
      if (parameters[p].master.value_or(read) != b.dtype || parameters[p].master.has_value() != b.working.has_value() ||
          read != b.read() || parameters[p].matrix != b.matrices || parameters[p].cut.has_value() != b.cut)
        return broken(kRuleBucketTypes, "'" + parameters[p].names[0] + "' has other types than its bucket");
    }
    return {};
  }

  Status teams(const Bucket& b) const {
    if (b.group.index >= module_.distribution.groups.size() || b.teams.index >= module_.distribution.teams.size())
      return broken(kRuleTeams, "there is no such group, or no such teams");
    const Teams& teams = module_.distribution.teams[b.teams.index];
    for (const std::vector<int32_t>& team : teams)
      if (static_cast<int64_t>(team.size()) != b.team_size) return broken(kRuleTeams, "a team is of another size");
    std::vector<int32_t> group = module_.distribution.ranks(b.group), members = joined(teams);
    std::sort(members.begin(), members.end());
    std::sort(group.begin(), group.end());
    if (members != group) return broken(kRuleTeams, "its teams do not partition its group");
    return b.across.valid() ? across(b, teams, group) : Status();
  }

  // Members of one team across have the same part: the same place in teams of their own.
  Status across(const Bucket& b, const Teams& teams, const std::vector<int32_t>& group) const {
    if (b.across.index >= module_.distribution.teams.size() || b.moments == Kept::kWhole)
      return broken(kRuleTeams, "there are no such teams across, or no parts");
    const Teams& across = module_.distribution.teams[b.across.index];
    std::vector<int32_t> members = joined(across);
    std::sort(members.begin(), members.end());
    if (members != group) return broken(kRuleTeams, "its teams across do not partition its group");
    for (const std::vector<int32_t>& team : across) {
      std::set<size_t> places, seen;
      for (size_t t = 0; t < teams.size(); ++t)
        for (size_t place = 0; place < teams[t].size(); ++place)
          if (std::find(team.begin(), team.end(), teams[t][place]) != team.end()) {
            places.insert(place);
            if (!seen.insert(t).second) return broken(kRuleTeams, "two of a team add up a part across");
          }
      if (places.size() != 1) return broken(kRuleTeams, "what is added up across are parts of several places");
    }
    return {};
  }

  Status gather(BucketId bucket, NodeId reader, NodeId node) const {
    const auto& nodes = module_.dag.nodes;
    const std::string name = "node " + std::to_string(node.index);
    if (bucket.index >= state_.buckets.size() || reader.index >= nodes.size() || node.index >= nodes.size())
      return broken(kRuleGathers, name + " gathers for something that does not exist");
    const auto* collective = std::get_if<CollectiveNode>(&nodes[node.index].payload);
    const auto* what = collective != nullptr ? std::get_if<ParameterOperand>(&collective->what) : nullptr;
    if (what == nullptr || collective->kind != CollectiveKind::kAllGather || what->bucket != bucket ||
        state_.buckets[bucket.index].parameters != Kept::kPart)
      return broken(kRuleGathers, name + " does not gather bucket " + state_.buckets[bucket.index].name);
    return {};
  }

  Status owners() const {
    const auto is_rank = [&](int32_t rank) { return rank < module_.distribution.world_size; };
    if (!state_.parameter_owner.empty() && state_.parameter_owner.size() != state_.parameter_uses.size())
      return broken(kRuleOwners, "there is not one owner per parameter");
    for (int32_t rank : state_.parameter_owner)
      if (rank < 0 || !is_rank(rank)) return broken(kRuleOwners, "a parameter is saved by no rank");
    for (int32_t rank : state_.buffer_owner)
      if (!is_rank(rank)) return broken(kRuleOwners, "a buffer is saved by no rank");
    for (const auto& [before, clears] : state_.clears)
      for (const Clear& clear : clears)
        if (before.index >= module_.dag.nodes.size() || clear.bucket.index >= state_.buckets.size() ||
            state_.buckets[clear.bucket.index].gradients != Kept::kPart)
          return broken(kRuleOwners, "node " + std::to_string(before.index) + " clears what lasts");
    return {};
  }

  const Module& module_;
  const StateLayout& state_;
};

}  // namespace

Status verify_state(const Module& module) {
  if (module.state.parameter_uses.empty()) return {};
  return StateVerifier(module).run();
}

}  // namespace piper::ir
