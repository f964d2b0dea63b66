#include "schemas/timeline/kinds.h"

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "schemas/verify/fold_ranks.h"

namespace piper::timeline {
namespace {

using namespace plan;

bool ranks_share_nothing(const Machine& machine) {
  return machine.cores == 0 && machine.inside.ports >= machine.ranks_per_node &&
         machine.between.ports >= machine.ranks_per_node;
}

// What decides which links a rank's transfers go over.
struct Place {
  std::vector<bool> leaves;                           // [channel] the node
  std::vector<std::vector<int32_t>> members_by_node;  // [communicator]: of its own node, then of the others, ascending
  friend auto operator<=>(const Place&, const Place&) = default;
};

Place place_of(const RankPlan& plan, int32_t ranks_per_node) {
  Place place;
  const int32_t own = plan.rank / ranks_per_node;
  for (const Channel& channel : plan.channels) place.leaves.push_back(channel.peer / ranks_per_node != own);
  for (const Communicator& communicator : plan.communicators) {
    std::vector<int32_t> nodes;
    for (const int32_t rank : communicator.ranks) nodes.push_back(rank / ranks_per_node);
    std::sort(nodes.begin(), nodes.end());
    std::vector<int32_t>& members = place.members_by_node.emplace_back(1, 0);
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (nodes[k] == own) ++members[0];
      else if (k > 0 && nodes[k] == nodes[k - 1]) ++members.back();
      else members.push_back(1);
    }
    std::sort(members.begin() + 1, members.end());
  }
  return place;
}

// [index into bundle.ranks] a number for the links that the rank's transfers go over.
std::vector<int32_t> places_of(const Bundle& bundle, const Machine& machine) {
  std::map<Place, int32_t> numbers;
  std::vector<int32_t> places;
  for (const RankPlan& plan : bundle.ranks) {
    Place place = place_of(plan, machine.ranks_per_node);
    places.push_back(numbers.try_emplace(std::move(place), static_cast<int32_t>(numbers.size())).first->second);
  }
  return places;
}

// Without ranks.
Bundle like_it(const Bundle& bundle) {
  Bundle like;
  like.manifest = bundle.manifest;
  like.programs = bundle.programs;
  like.provenance = bundle.provenance;
  return like;
}

// `kind_of`: [index into the bundle's ranks].
std::vector<int32_t> by_rank(const Bundle& bundle, const std::vector<int32_t>& kind_of) {
  std::vector<int32_t> kinds;
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    const auto rank = static_cast<size_t>(bundle.ranks[p].rank);
    if (kinds.size() <= rank) kinds.resize(rank + 1, -1);
    kinds[rank] = kind_of[p];
  }
  return kinds;
}

Result<Kinds> each_its_own(const Bundle& bundle) {
  Kinds kinds;
  PIPER_ASSIGN(kinds.matching, verify::match(bundle));
  kinds.bundle = like_it(bundle);
  kinds.bundle.ranks = bundle.ranks;
  kinds.num_ranks.assign(bundle.ranks.size(), 1);
  std::vector<int32_t> own(bundle.ranks.size());
  std::iota(own.begin(), own.end(), 0);
  kinds.kind_of = by_rank(bundle, own);
  return kinds;
}

Result<Kinds> folded(const Bundle& bundle, const std::vector<int32_t>& apart) {
  std::optional<verify::FoldedRanks> folded = verify::fold_ranks(bundle, apart);
  if (!folded) return each_its_own(bundle);
  Kinds kinds;
  PIPER_ASSIGN(kinds.matching, verify::match(folded->bundle));
  kinds.num_ranks = std::move(folded->num_ranks);
  kinds.kind_of = by_rank(bundle, folded->kind_of);
  kinds.bundle = like_it(bundle);
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    if (static_cast<size_t>(folded->kind_of[p]) == kinds.bundle.ranks.size())
      kinds.bundle.ranks.push_back(bundle.ranks[p]);
  return kinds;
}

}  // namespace

Result<Kinds> kinds_of(const Bundle& bundle) { return folded(bundle, {}); }

Result<Kinds> kinds_on(const Bundle& bundle, const Machine& machine) {
  return ranks_share_nothing(machine) ? folded(bundle, places_of(bundle, machine)) : each_its_own(bundle);
}

}  // namespace piper::timeline
