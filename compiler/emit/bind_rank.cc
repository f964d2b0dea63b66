#include "compiler/emit/bind_rank.h"

#include <algorithm>

#include "schemas/base/check.h"

namespace piper::emit {
namespace {

class RankBinder {
 public:
  RankBinder(const ir::Module& module, const Connections& connections, const RolePlan& role, const Binding& binding)
      : module_(module), connections_(connections), role_(role), binding_(binding), plan_(role.plan) {}

  plan::RankPlan bind() {
    plan_.rank = binding_.rank;
    for (plan::Channel& channel : plan_.channels) channel.peer = named(binding_.peers, channel.name);
    for (plan::Communicator& communicator : plan_.communicators)
      communicator.ranks = *named(binding_.teams, communicator.name);
    for (plan::InputSlice& input : plan_.inputs)
      if (const SampleOrigin* origin = origin_of(input.where.buffer)) input.first = first_sample(*origin);
    for (plan::ScalarValue& scalar : plan_.scalars)
      if (scalar.holds == plan::StepNumber::kPlace) scalar.values = {place()};
      else if (const SampleOrigin* origin = origin_of(scalar.buffer)) scalar.values = {first_sample(*origin)};
    std::vector<plan::Placement> placements;
    for (size_t i = 0; i < plan_.placements.size(); ++i) {
      if (i < role_.held.size() && !hold(plan_.placements[i], role_.held[i])) continue;
      placements.push_back(std::move(plan_.placements[i]));
    }
    plan_.placements = std::move(placements);
    bind_parts();
    return std::move(plan_);
  }

 private:
  template <class T>
  T named(const std::vector<std::pair<uint32_t, T>>& bound, const std::string& name) const {
    const auto it = std::find_if(bound.begin(), bound.end(),
                                 [&](const auto& entry) { return connections_.name(entry.first) == name; });
    PIPER_CHECK(it != bound.end(), "rank ", binding_.rank, " has no ", name, ", which its role has");
    return it->second;
  }

  const SampleOrigin* origin_of(int32_t buffer) const {
    const auto it = std::find_if(role_.samples.begin(), role_.samples.end(),
                                 [&](const SampleOrigin& origin) { return origin.buffer == buffer; });
    return it == role_.samples.end() ? nullptr : &*it;
  }

  int64_t first_sample(const SampleOrigin& origin) const {
    const int64_t per_microbatch = module_.step.batch / module_.step.num_microbatches;
    const ir::Distribution& d = module_.distribution;
    const int64_t replica = d.replica_of(origin.group, connections_.position(origin.group, binding_.rank));
    return origin.microbatch * per_microbatch + replica * (per_microbatch / d.replicas(origin.group));
  }

  int64_t position_in(const std::vector<int32_t>& group) const {
    return std::find(group.begin(), group.end(), binding_.rank) - group.begin();
  }
  int64_t place() const {
    if (place_ < 0) place_ = position_in(module_.distribution.sharing_with(binding_.rank));
    return place_;
  }

  // Which of a parameter's parts the rank has: by its place, and in that by its position in its expert group; 0 of a
  // whole one.
  int64_t slice(const ir::Parameter& parameter) const {
    const int64_t of_place = parameter.cut ? place() : 0;
    if (parameter.shard < 0) return of_place;
    const auto& group = module_.distribution.expert_group_of(parameter.shard, binding_.rank);
    return of_place * parameter.shards + position_in(group);
  }

  bool saves_trained(ir::AccumulatorId use, bool owner) const {
    const ir::Bucket& bucket = module_.state.bucket_of(use);
    if (bucket.moments == ir::Kept::kWhole || bucket.trained() == ir::Kept::kPart) return owner;
    // All have it whole, and nobody counts more of the gradient than a part.
    return connections_.place(bucket.teams, binding_.rank).position == 0 && owner;
  }

  // A frozen part of the experts is saved by the first group's members, each its own; one of a cut by those that share
  // samples with its owner, or with these.
  bool saves_frozen(uint32_t p, const ir::Parameter& parameter) const {
    if (parameter.cut && parameter.shard >= 0) {
      const std::vector<int32_t>& first = module_.distribution.expert_groups[parameter.shard].groups[0];
      return std::any_of(first.begin(), first.end(), [&](int32_t member) {
        const std::vector<int32_t>& places = module_.distribution.sharing_with(member);
        return std::find(places.begin(), places.end(), binding_.rank) != places.end();
      });
    }
    if (parameter.cut) {
      const std::vector<int32_t>& places = module_.distribution.sharing_with(module_.state.parameter_owner[p]);
      return std::find(places.begin(), places.end(), binding_.rank) != places.end();
    }
    if (parameter.shard < 0) return module_.state.parameter_owner[p] == binding_.rank;
    const std::vector<int32_t>& first = module_.distribution.expert_groups[parameter.shard].groups[0];
    return std::find(first.begin(), first.end(), binding_.rank) != first.end();
  }

  ir::Stretch part_of(const ir::Bucket& bucket) const {
    return bucket.part(connections_.place(bucket.teams, binding_.rank).position);
  }

  // Argument lists that name the rank's own parts; those of a first part are the role's.
  void bind_parts() {
    for (size_t i = 0; i < role_.parts.size();) {
      const int32_t list = role_.parts[i].list;
      plan::ArgumentList own = role_.plan.arguments[static_cast<size_t>(list)];
      bool other = false;
      for (; i < role_.parts.size() && role_.parts[i].list == list; ++i) {
        const PartArgument& part = role_.parts[i];
        const int64_t offset = connections_.place(part.teams, binding_.rank).position * part.part_bytes;
        own.arguments[part.slot].offset += offset;
        other = other || offset != 0;
      }
      if (other) plan_.arguments.set_own(static_cast<size_t>(list), std::move(own));
    }
  }

  // Whether the rank has anything of the tensor.
  bool cut(plan::Placement& placement, const HeldTensor& held) const {
    const ir::Accumulator& a = module_.state.accumulators[held.use.index];
    const ir::Bucket& bucket = module_.state.buckets[a.bucket.index];
    const ir::Stretch own = part_of(bucket);
    const int64_t begin = std::max(a.offset, own.begin), end = std::min(a.offset + a.bytes, own.end);
    if (begin >= end) return false;
    const int64_t offset = begin - (held.kept == ir::Kept::kPart ? own.begin : 0);
    placement.part.where.offset = held.read ? bucket.read_offset(offset) : offset;
    placement.part.first = bucket.elements(begin - a.offset);
    placement.part.count = bucket.elements(end - begin);
    return true;
  }

  bool hold(plan::Placement& placement, const HeldTensor& held) const {
    if (held.cut && !cut(placement, held)) return false;
    place(placement, held);
    if (module_.evaluates) placement.part.owner = false;  // the training's plan saves the tensor
    return true;
  }

  void place(plan::Placement& placement, const HeldTensor& held) const {
    if (held.kind == HeldTensor::Kind::kState) {
      placement.part.owner = module_.state.buffer_owner[held.index] == binding_.rank;
      return;
    }
    const ir::Parameter& parameter = module_.graph().parameters()[held.index];
    placement.part.first += slice(parameter) * module_.graph().type(parameter.value).elements();
    if (held.kind == HeldTensor::Kind::kFrozen) {
      placement.part.owner = saves_frozen(held.index, parameter);
      return;
    }
    if (placement.kind == plan::PlacementKind::kWorking) return;  // a copy, which its master saves
    const bool owner = module_.state.owns(module_.distribution, held.use, binding_.rank);
    placement.part.owner =
        placement.kind == plan::PlacementKind::kValue || placement.kind == plan::PlacementKind::kMaster
            ? saves_trained(held.use, owner)
            : owner;
  }

  const ir::Module& module_;
  const Connections& connections_;
  const RolePlan& role_;
  const Binding& binding_;
  plan::RankPlan plan_;
  mutable int64_t place_ = -1;  // once asked for: all cut parameters of a rank are cut at its place
};

}  // namespace

plan::RankPlan bind_rank(const ir::Module& module, const Connections& connections, const RolePlan& role,
                         const Binding& binding) {
  return RankBinder(module, connections, role, binding).bind();
}

}  // namespace piper::emit
