#include "schemas/timeline/kinds.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "schemas/plan/like_ranks.h"
#include "schemas/verify/fold_ranks.h"

namespace piper::timeline {
namespace {

using namespace plan;

bool ranks_share_nothing(const Machine& machine) {
  return machine.cores == 0 && machine.inside.ports >= machine.ranks_per_node &&
         machine.between.ports >= machine.ranks_per_node;
}

// Where a communicator's members lie: by their nodes, which are counted as they come.
std::vector<int32_t> nodes_of(const std::vector<int32_t>& ranks, int32_t ranks_of_node) {
  std::vector<int32_t> known, nodes;
  for (const int32_t rank : ranks) {
    const auto at = std::find(known.begin(), known.end(), rank / ranks_of_node);
    nodes.push_back(static_cast<int32_t>(at - known.begin()));
    if (at == known.end()) known.push_back(rank / ranks_of_node);
  }
  return nodes;
}

// Whether all that a rank does with others goes over links like those of the first rank of its kind.
bool lie_alike(const RankPlan& plan, const RankPlan& first, int32_t ranks_of_node) {
  const auto leaves = [&](const RankPlan& from, size_t channel) {
    return from.rank / ranks_of_node != from.channels[channel].peer / ranks_of_node;
  };
  const auto near = [&](const RankPlan& from, size_t communicator) {
    const std::vector<int32_t>& ranks = from.communicators[communicator].ranks;
    return std::count_if(ranks.begin(), ranks.end(),
                         [&](int32_t rank) { return rank / ranks_of_node == from.rank / ranks_of_node; });
  };
  for (size_t c = 0; c < plan.channels.size(); ++c)
    if (leaves(plan, c) != leaves(first, c)) return false;
  for (size_t c = 0; c < plan.communicators.size(); ++c)
    if (near(plan, c) != near(first, c) ||
        nodes_of(plan.communicators[c].ranks, ranks_of_node) != nodes_of(first.communicators[c].ranks, ranks_of_node))
      return false;
  return true;
}

bool lie_alike(const Bundle& bundle, const Machine& machine) {
  const std::vector<int32_t> like = like_ranks(bundle);
  for (size_t p = 0; p < like.size(); ++p)
    if (like[p] >= 0 && !lie_alike(bundle.ranks[p], bundle.ranks[static_cast<size_t>(like[p])], machine.ranks_per_node))
      return false;
  return true;
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

}  // namespace

Result<Kinds> kinds_of(const Bundle& bundle) {
  std::optional<verify::FoldedRanks> folded = verify::fold_ranks(bundle);
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

Result<Kinds> kinds_on(const Bundle& bundle, const Machine& machine) {
  return ranks_share_nothing(machine) && lie_alike(bundle, machine) ? kinds_of(bundle) : each_its_own(bundle);
}

}  // namespace piper::timeline
