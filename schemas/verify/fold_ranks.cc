#include "schemas/verify/fold_ranks.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "schemas/plan/actions.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/verify/meetings.h"

namespace piper::verify {
namespace {

using namespace plan;

// A communicator or a channel of all ranks of a kind, by its index in their plans.
using KindEnd = std::pair<int32_t, int32_t>;  // kind, index

class Folder {
 public:
  explicit Folder(const Bundle& bundle) : bundle_(bundle) {}

  std::optional<FoldedRanks> fold(const std::vector<int32_t>& apart) {
    const size_t ranks = bundle_.ranks.size();
    if (static_cast<int64_t>(ranks) != bundle_.manifest.world_size || !each_rank_once()) return std::nullopt;
    if (begin_with_like_ranks(apart) == ranks) return std::nullopt;
    const Meetings meetings(bundle_);
    if (split_kinds(meetings) == ranks) return std::nullopt;
    count_kinds();
    count_uses();
    if (!fold_communicators(meetings)) return std::nullopt;
    for (size_t p = 0; p < ranks; ++p)
      if (!fold_channels(meetings, p)) return std::nullopt;
    make();
    folded_.kind_of = std::move(kind_of_);
    return std::move(folded_);
  }

 private:
  bool each_rank_once() const {
    std::vector<bool> seen(bundle_.ranks.size(), false);
    for (const RankPlan& plan : bundle_.ranks) {
      const auto rank = static_cast<size_t>(plan.rank);
      if (rank >= seen.size() || seen[rank]) return false;
      seen[rank] = true;
    }
    return true;
  }

  // Both return how many kinds there are, numbered in the order of their first ranks.
  size_t begin_with_like_ranks(const std::vector<int32_t>& apart) {
    const std::vector<int32_t> like = like_ranks(bundle_);
    std::map<std::pair<int32_t, int32_t>, int32_t> kinds;
    for (size_t p = 0; p < like.size(); ++p) {
      const std::pair key(like[p] < 0 ? static_cast<int32_t>(p) : like[p], apart.empty() ? 0 : apart[p]);
      kind_of_.push_back(kinds.try_emplace(key, static_cast<int32_t>(kinds.size())).first->second);
    }
    return kinds.size();
  }

  // Partition refinement: ranks that meet other kinds are of other kinds, until no kind is split any more.
  size_t split_kinds(const Meetings& meetings) {
    for (size_t before = 0;;) {
      std::map<std::vector<KindEnd>, int32_t> sorts;  // of meetings, by who meets there
      std::vector<int32_t> sort_of;                   // [meeting]
      for (size_t m = 0; m < meetings.size(); ++m)
        sort_of.push_back(sorts.try_emplace(ends_of(meetings, m), static_cast<int32_t>(sorts.size())).first->second);
      std::map<std::vector<int32_t>, int32_t> kinds;
      std::vector<int32_t> kind_of;
      for (size_t p = 0; p < bundle_.ranks.size(); ++p) {
        const RankPlan& plan = bundle_.ranks[p];
        std::vector<int32_t> meets{kind_of_[p]};
        for (size_t c = 0; c < plan.communicators.size(); ++c)
          meets.push_back(sort_of[static_cast<size_t>(meetings.of(p, static_cast<int32_t>(c)))]);
        for (const Channel& channel : plan.channels) {
          const int32_t peer = meetings.plan_of(channel.peer);
          meets.push_back(peer < 0 ? -1 : kind_of_[static_cast<size_t>(peer)]);
        }
        kind_of.push_back(kinds.try_emplace(std::move(meets), static_cast<int32_t>(kinds.size())).first->second);
      }
      kind_of_ = std::move(kind_of);
      if (kinds.size() == before) return before;
      before = kinds.size();
    }
  }

  void count_kinds() {
    for (size_t p = 0; p < kind_of_.size(); ++p) {
      const auto kind = static_cast<size_t>(kind_of_[p]);
      if (kind == first_.size()) {
        first_.push_back(p);
        folded_.num_ranks.push_back(0);
      }
      ++folded_.num_ranks[kind];
    }
  }

  // Who meets there, in ascending order, each once.
  std::vector<KindEnd> ends_of(const Meetings& meetings, size_t m) const {
    std::vector<KindEnd> ends;
    for (const auto& member : meetings.members(static_cast<int32_t>(m)))
      ends.emplace_back(kind_of_[static_cast<size_t>(member.plan)], member.communicator);
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return ends;
  }

  const RankPlan& plan_of_kind(int32_t kind) const { return bundle_.ranks[first_[static_cast<size_t>(kind)]]; }

  void count_uses() {
    for (const size_t p : first_) {
      const RankPlan& plan = bundle_.ranks[p];
      std::vector<int64_t>& collectives = collectives_.emplace_back(plan.communicators.size(), 0);
      std::vector<int64_t>&sends = sends_.emplace_back(plan.channels.size(), 0),
      &recvs = recvs_.emplace_back(plan.channels.size(), 0);
      for (const Instruction& instruction : plan.instructions) {
        if (const auto* send = std::get_if<Send>(&instruction.action)) ++sends.at(static_cast<size_t>(send->channel));
        if (const auto* recv = std::get_if<Recv>(&instruction.action)) ++recvs.at(static_cast<size_t>(recv->channel));
        if (const int32_t c = communicator_of(instruction.action); c >= 0) ++collectives.at(static_cast<size_t>(c));
      }
    }
  }

  // Whether every meeting has all of its members, each once, and each end of a kind always meets the same ends.
  bool fold_communicators(const Meetings& meetings) {
    for (size_t m = 0; m < meetings.size(); ++m) {
      const auto members = meetings.members(static_cast<int32_t>(m));
      const RankPlan& first = bundle_.ranks[static_cast<size_t>(members[0].plan)];
      const std::vector<int32_t>& ranks = first.communicators[static_cast<size_t>(members[0].communicator)].ranks;
      if (!std::equal(members.begin(), members.end(), ranks.begin(), ranks.end(),
                      [&](const auto& member, int32_t rank) {
                        return bundle_.ranks[static_cast<size_t>(member.plan)].rank == rank;
                      }))
        return false;
      const std::vector<KindEnd> ends = ends_of(meetings, m);
      const auto same_kind = [](const KindEnd& a, const KindEnd& b) { return a.first == b.first; };
      if (std::adjacent_find(ends.begin(), ends.end(), same_kind) != ends.end()) return false;
      for (const KindEnd& end : ends)
        if (met_.try_emplace(end, ends).first->second != ends) return false;
      folded_.num_collectives += collectives_[static_cast<size_t>(ends[0].first)][static_cast<size_t>(ends[0].second)];
    }
    return true;
  }

  // Whether each channel of the rank leads to one of its peer's, which leads back, as it does for the others of its
  // kind.
  bool fold_channels(const Meetings& meetings, size_t p) {
    const RankPlan& plan = bundle_.ranks[p];
    const int32_t kind = kind_of_[p];
    const auto& sends = sends_[static_cast<size_t>(kind)];
    const auto& recvs = recvs_[static_cast<size_t>(kind)];
    for (size_t c = 0; c < plan.channels.size(); ++c) {
      const Channel& channel = plan.channels[c];
      for (size_t other = 0; other < c; ++other)  // two on one line
        if (plan.channels[other].peer == channel.peer && plan.channels[other].id == channel.id &&
            ((sends[c] > 0 && sends[other] > 0) || (recvs[c] > 0 && recvs[other] > 0)))
          return false;
      const int32_t peer = meetings.plan_of(channel.peer);
      if (peer < 0 || kind_of_[static_cast<size_t>(peer)] == kind) return false;
      const std::vector<Channel>& back = bundle_.ranks[static_cast<size_t>(peer)].channels;
      const auto leads_back = [&](const Channel& other) {
        return other.peer == plan.rank && other.id == channel.id && other.name == channel.name;
      };
      if (std::count_if(back.begin(), back.end(), leads_back) != 1) return false;
      const auto at = static_cast<int32_t>(std::find_if(back.begin(), back.end(), leads_back) - back.begin());
      const KindEnd end{kind_of_[static_cast<size_t>(peer)], at};
      if (leads_to_.try_emplace(KindEnd{kind, static_cast<int32_t>(c)}, end).first->second != end) return false;
      folded_.num_messages += sends[c];
    }
    return true;
  }

  void make() {
    Bundle& bundle = folded_.bundle;
    const Manifest& manifest = bundle_.manifest;
    bundle.manifest.target = manifest.target;
    bundle.manifest.world_size = static_cast<int32_t>(first_.size());
    bundle.manifest.batch = manifest.batch;
    bundle.manifest.chunks = manifest.chunks;
    bundle.manifest.evaluates = manifest.evaluates;
    bundle.programs = bundle_.programs;
    std::map<std::vector<KindEnd>, std::string> meetings;  // each has a name of its own
    std::map<std::pair<KindEnd, KindEnd>, int32_t> lines;  // each has an id of its own
    for (size_t kind = 0; kind < first_.size(); ++kind) {
      const auto k = static_cast<int32_t>(kind);
      const RankPlan& from = plan_of_kind(k);
      RankPlan& plan = bundle.ranks.emplace_back();
      plan.rank = k;
      plan.arena_bytes = from.arena_bytes;
      plan.streams = from.streams;
      plan.events = from.events;
      plan.buffers = from.buffers;
      plan.arguments = from.arguments;
      plan.instructions = from.instructions;
      for (size_t c = 0; c < from.communicators.size(); ++c) {
        const std::vector<KindEnd>& ends = met_.at({k, static_cast<int32_t>(c)});
        Communicator& communicator = plan.communicators.emplace_back();
        communicator.name = meetings.try_emplace(ends, std::to_string(meetings.size())).first->second;
        for (const KindEnd& end : ends) communicator.ranks.push_back(end.first);
      }
      for (size_t c = 0; c < from.channels.size(); ++c) {
        const KindEnd here{k, static_cast<int32_t>(c)}, there = leads_to_.at(here);
        const auto id = lines.try_emplace(std::minmax(here, there), static_cast<int32_t>(lines.size())).first->second;
        plan.channels.push_back({from.channels[c].name, there.first, id});
      }
    }
  }

  const Bundle& bundle_;
  std::vector<int32_t> kind_of_;                                   // [plan]
  std::vector<size_t> first_;                                      // [kind] its first plan
  std::vector<std::vector<int64_t>> collectives_, sends_, recvs_;  // [kind][communicator], [kind][channel]: how many
  std::map<KindEnd, std::vector<KindEnd>> met_;                    // communicators: who meets there, itself among them
  std::map<KindEnd, KindEnd> leads_to_;                            // channels
  FoldedRanks folded_;
};

}  // namespace

std::optional<FoldedRanks> fold_ranks(const Bundle& bundle, const std::vector<int32_t>& apart) {
  return Folder(bundle).fold(apart);
}

}  // namespace piper::verify
