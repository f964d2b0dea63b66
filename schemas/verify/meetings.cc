#include "schemas/verify/meetings.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace piper::verify {

using namespace plan;

namespace {

struct DirectedLine {
  int32_t from = -1, to = -1, id = 0;
  friend auto operator<=>(const DirectedLine&, const DirectedLine&) = default;
};
DirectedLine out_of(const RankPlan& plan, const Channel& channel) { return {plan.rank, channel.peer, channel.id}; }
DirectedLine into(const RankPlan& plan, const Channel& channel) { return {channel.peer, plan.rank, channel.id}; }

}  // namespace

Meetings::Meetings(const Bundle& bundle) : plan_of_(static_cast<size_t>(bundle.manifest.world_size), -1) {
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    plan_of_.at(static_cast<size_t>(bundle.ranks[p].rank)) = static_cast<int32_t>(p);
  find_meetings(bundle);
  find_lines(bundle);
}

void Meetings::find_meetings(const Bundle& bundle) {
  const auto less = [](const Communicator* a, const Communicator* b) {
    return std::tie(a->name, a->ranks) < std::tie(b->name, b->ranks);
  };
  std::map<const Communicator*, int32_t, decltype(less)> numbers(less);
  std::vector<const Communicator*> of_number;
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    of_.emplace_back();
    for (const Communicator& communicator : bundle.ranks[p].communicators) {
      const auto [known, fresh] = numbers.try_emplace(&communicator, static_cast<int32_t>(members_.size()));
      if (fresh) {
        members_.emplace_back();
        of_number.push_back(&communicator);
      }
      members_[static_cast<size_t>(known->second)].push_back(
          {static_cast<int32_t>(p), static_cast<int32_t>(of_.back().size())});
      of_.back().push_back(known->second);
    }
  }
  std::vector<size_t> position(plan_of_.size(), 0);  // [rank] in the communicator at hand; 0 where it is no member
  for (size_t m = 0; m < members_.size(); ++m) {
    const std::vector<int32_t>& ranks = of_number[m]->ranks;
    const auto known = [&](int32_t rank) { return rank >= 0 && static_cast<size_t>(rank) < position.size(); };
    for (size_t i = 0; i < ranks.size(); ++i)
      if (known(ranks[i])) position[static_cast<size_t>(ranks[i])] = i + 1;
    const auto at = [&](const Member& member) {
      return position[static_cast<size_t>(bundle.ranks[static_cast<size_t>(member.plan)].rank)];
    };
    std::stable_sort(members_[m].begin(), members_[m].end(),
                     [&](const Member& a, const Member& b) { return at(a) < at(b); });
    for (const int32_t rank : ranks)
      if (known(rank)) position[static_cast<size_t>(rank)] = 0;
  }
}

void Meetings::find_lines(const Bundle& bundle) {
  std::vector<DirectedLine> lines;
  for (const RankPlan& plan : bundle.ranks)
    for (const Channel& channel : plan.channels) {
      lines.push_back(out_of(plan, channel));
      lines.push_back(into(plan, channel));
    }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  const auto number = [&](const DirectedLine& line) {
    return static_cast<int32_t>(std::lower_bound(lines.begin(), lines.end(), line) - lines.begin());
  };
  for (const RankPlan& plan : bundle.ranks) {
    out_.emplace_back();
    in_.emplace_back();
    for (const Channel& channel : plan.channels) {
      out_.back().push_back(number(out_of(plan, channel)));
      in_.back().push_back(number(into(plan, channel)));
    }
  }
  for (const DirectedLine& line : lines) ends_.push_back(plan_of(line.to));
}

}  // namespace piper::verify
