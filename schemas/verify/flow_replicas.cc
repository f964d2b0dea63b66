#include "schemas/verify/flow_replicas.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "schemas/plan/actions.h"
#include "schemas/verify/flow_transfers.h"

namespace piper::verify {

using namespace plan;

namespace {

// Instructions from a quarter of a rank's forwards and backwards on to three quarters of them.
std::pair<size_t, size_t> middle_of(const Bundle& bundle, const RankPlan& plan) {
  std::vector<size_t> passes;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Run* const run = run_of(plan.instructions[i].action);
    if (run == nullptr) continue;
    const std::optional<ChunkPass>& of = bundle.programs[static_cast<size_t>(run->program)].of;
    if (of && of->pass != Pass::kCount && of->pass != Pass::kCountFinish) passes.push_back(i);
  }
  if (passes.empty()) return {0, 0};
  return {passes[passes.size() / 4], passes[passes.size() - 1 - passes.size() / 4]};
}

// [communicator] whether a rank comes to it less than every other microbatch in the middle of its step.
std::vector<bool> rarely_met(const RankPlan& plan, const std::pair<size_t, size_t>& middle) {
  std::vector<size_t> met(plan.communicators.size(), 0);
  std::set<int32_t> microbatches;
  for (size_t i = middle.first; i < middle.second; ++i) {
    const Action& action = plan.instructions[i].action;
    if (const int32_t c = communicator_of(action); c >= 0) ++met[static_cast<size_t>(c)];
    if (const Run* const run = run_of(action); run != nullptr)
      microbatches.insert(plan.arguments[static_cast<size_t>(run->arguments)].microbatch);
  }
  std::vector<bool> rarely;
  for (const size_t times : met) rarely.push_back(2 * times < microbatches.size());
  return rarely;
}

}  // namespace

// The contents of one replica as those of another. Each list and each sum is moved once.
class Flow::Replicas::Moved {
 public:
  Moved(Ledger& ledger, int64_t by) : ledger_(ledger), by_(by) {}

  int32_t samples(int32_t id) {
    const auto [known, fresh] = samples_.try_emplace(id, 0);
    if (fresh) known->second = ledger_.samples.moved(id, by_);
    return known->second;
  }
  Content operator()(Content content) {
    if (auto* const value = content.as<Value>()) value->samples = samples(value->samples);
    if (auto* const statistic = content.as<Statistic>()) statistic->samples = samples(statistic->samples);
    if (auto* const sum = content.as<Sum>())
      *sum = ledger_.moved(*sum, [this](int32_t id) { return samples(id); }, sums_);
    return content;
  }

 private:
  Ledger& ledger_;
  int64_t by_;
  std::unordered_map<int32_t, int32_t> samples_;
  Ledger::Moved sums_;
};

Flow::Replicas::Replicas(Flow& flow) : flow_(flow) {
  find_kinds();
  find_replicas();
  if (several()) go_to_starts();
}

void Flow::Replicas::find_kinds() {
  for (size_t p = 0; p < flow_.ranks_.size(); ++p) {
    const RankPlan& plan = *flow_.ranks_[p].plan;
    if (const int32_t like = flow_.like_[p]; like >= 0) {
      kind_of_.push_back(kind_of_[static_cast<size_t>(like)]);
    } else {
      kind_of_.push_back(static_cast<int32_t>(kinds_.size()));
      Kind& fresh = kinds_.emplace_back();
      fresh.own_lists.resize(plan.arguments.size());
      fresh.differs.resize(plan.buffers.size());
      // Communicators that a rank rarely comes to are taken to join replicas, as those of sums over all samples do.
      // Whichever are, replicas are shown to be alike.
      fresh.middle = middle_of(flow_.bundle_, plan);
      fresh.outer = rarely_met(plan, fresh.middle);
    }
    for (const ArgumentLists::Own& own : plan.arguments.own()) kind(p).own_lists[own.index] = true;
  }
}

// Ranks that channels and inner communicators join.
void Flow::Replicas::find_replicas() {
  const size_t ranks = flow_.ranks_.size();
  if (kinds_.size() == ranks) return;
  std::vector<size_t> parent(ranks);
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t p) {
    while (parent[p] != p) p = parent[p] = parent[parent[p]];
    return p;
  };
  const auto join = [&](size_t p, int32_t other_rank) {
    const int32_t other = flow_.meetings_.plan_of(other_rank);
    if (other < 0) return;
    const size_t a = root(p), b = root(static_cast<size_t>(other));
    parent[std::max(a, b)] = std::min(a, b);
  };
  for (size_t p = 0; p < ranks; ++p) {
    const RankPlan& plan = *flow_.ranks_[p].plan;
    for (const Channel& channel : plan.channels) join(p, channel.peer);
    for (size_t c = 0; c < plan.communicators.size(); ++c)
      if (!kind(p).outer[c])
        for (const int32_t member : plan.communicators[c].ranks) join(p, member);
  }
  std::vector<size_t> number(ranks);
  for (size_t p = 0; p < ranks; ++p) {
    const size_t first = root(p);
    if (first == p) {
      number[p] = of_.size();
      of_.emplace_back();
    }
    replica_of_.push_back(number[first]);
    place_.push_back(of_[number[first]].size());
    of_[number[first]].push_back(p);
  }
  moved_by_.assign(of_.size(), 0);
}

bool Flow::Replicas::go_on(const std::vector<size_t>& plans) {
  std::vector<size_t> ready(plans.rbegin(), plans.rend());
  while (!ready.empty()) {
    const size_t next = ready.back();
    ready.pop_back();
    if (!flow_.advance(next, ready).ok()) return false;
  }
  return true;
}

void Flow::Replicas::go_to_starts() {
  std::vector<size_t> all(flow_.ranks_.size()), start(kinds_.size(), 0);
  std::iota(all.begin(), all.end(), size_t{0});
  for (const size_t p : all) {
    const RankPlan& plan = *flow_.ranks_[p].plan;
    size_t& after = start[static_cast<size_t>(kind_of_[p])];
    if (flow_.like_[p] < 0)
      for (size_t i = 0; i < kind(p).middle.first; ++i)
        if (stops_at(plan, kind(p), plan.instructions[i].action)) after = i + 1;
    flow_.ranks_[p].stop = after;
  }
  in_vain_ = !go_on(all);
  for (Rank& rank : flow_.ranks_) rank.stop = kNowhere;
  flow_.asked_for_all_ = false;
}

bool Flow::Replicas::same_ranks(const std::vector<int32_t>& first, const std::vector<int32_t>& other,
                                size_t replica) const {
  return std::equal(first.begin(), first.end(), other.begin(), other.end(), [&](int32_t a, int32_t b) {
    const int32_t p = flow_.meetings_.plan_of(a), q = flow_.meetings_.plan_of(b);
    return p >= 0 && q >= 0 && replica_of_[static_cast<size_t>(p)] == 0 &&
           replica_of_[static_cast<size_t>(q)] == replica &&
           place_[static_cast<size_t>(p)] == place_[static_cast<size_t>(q)];
  });
}

bool Flow::Replicas::is_alike(size_t replica) {
  if (of_[replica].size() != of_[0].size()) return false;
  std::optional<int64_t> moved;
  for (size_t i = 0; i < of_[0].size(); ++i) {
    if (kind_of_[of_[0][i]] != kind_of_[of_[replica][i]]) return false;
    const auto &first = rank(0, i).plan->inputs, &other = rank(replica, i).plan->inputs;
    if (first.size() != other.size()) return false;
    const std::vector<InputDecl>& declared = flow_.bundle_.manifest.inputs;
    for (size_t k = 0; k < first.size(); ++k) {
      const auto of = std::find_if(declared.begin(), declared.end(),
                                   [&](const InputDecl& input) { return input.name == first[k].input; });
      if (of == declared.end() || !of->batched) continue;
      if (!moved) moved = other[k].first - first[k].first;
      if (other[k].first - first[k].first != *moved) return false;
    }
  }
  moved_by_[replica] = moved.value_or(0);
  for (size_t i = 0; i < of_[0].size(); ++i)
    if (!meets_alike(replica, i) || !starts_alike(replica, i)) return false;
  return true;
}

bool Flow::Replicas::meets_alike(size_t replica, size_t i) {
  const Rank &first = rank(0, i), &other = rank(replica, i);
  const Kind& own = kind(of_[0][i]);
  for (size_t c = 0; c < first.plan->channels.size(); ++c)
    if (!same_ranks({first.plan->channels[c].peer}, {other.plan->channels[c].peer}, replica)) return false;
  for (size_t c = 0; c < first.plan->communicators.size(); ++c)
    if (!own.outer[c] && !same_ranks(first.plan->communicators[c].ranks, other.plan->communicators[c].ranks, replica))
      return false;
  for (int32_t cut = 0; static_cast<size_t>(cut) < flow_.bundle_.manifest.cuts.size(); ++cut) {
    const auto *const a = flow_.places_.group(cut, first.plan->rank), *const b =
                                                                          flow_.places_.group(cut, other.plan->rank);
    if ((a == nullptr) != (b == nullptr)) return false;
    if (flow_.places_.place(cut, first.plan->rank) != flow_.places_.place(cut, other.plan->rank)) return false;
    if (a != nullptr && !same_ranks(*a, *b, replica)) return false;
  }
  return first.kept == other.kept && first.contents.slice == other.contents.slice;
}

// Notes the buffers in which they differ; false where they do in what is not stopped at.
bool Flow::Replicas::starts_alike(size_t replica, size_t i) {
  const Rank &first = rank(0, i), &other = rank(replica, i);
  if (first.next != other.next || first.arrived || other.arrived) return false;
  const int64_t by = moved_by_[replica];
  if (!std::equal(first.scalars.begin(), first.scalars.end(), other.scalars.begin(), other.scalars.end(),
                  [&](const auto& a, const auto& b) {
                    return a.first == b.first &&
                           std::equal(a.second->begin(), a.second->end(), b.second->begin(), b.second->end(),
                                      [&](int64_t x, int64_t y) { return x + by == y; });
                  }))
    return false;
  Moved moved(flow_.ledger_, by);
  const auto same = [&](const BufferContents::Segment& a, const BufferContents::Segment& b) {
    const Content content = moved(a.content);
    return a.begin == b.begin && a.end == b.end && content.same(b.content) && content.origin == b.content.origin &&
           content.start == b.content.start && content.relied == b.content.relied;
  };
  std::vector<bool>& differs = kind(of_[0][i]).differs;
  first.contents.compare(other.contents, same, [&](int32_t buffer) { differs[static_cast<size_t>(buffer)] = true; });
  return true;
}

bool Flow::Replicas::stops_at(const RankPlan& plan, const Kind& kind, const Action& action) const {
  const auto asks_for_all = [&](const ProgramEffects& effects) {
    const auto moves = [](const ProgramEffects::Call& call) {
      return call.op == ProgramEffects::Op::kClear || call.op == ProgramEffects::Op::kCopy;
    };
    if (effects.follow) return !std::all_of(effects.calls.begin(), effects.calls.end(), moves);
    return !effects.statistics.empty() ||
           std::any_of(effects.sums.begin(), effects.sums.end(),
                       [](const ProgramEffects::OnSum& sum) { return sum.act == ProgramEffects::Do::kConsume; });
  };
  const bool stops = std::visit(
      Cases{[&](const Run& run) {
              return kind.own_lists[static_cast<size_t>(run.arguments)] ||
                     asks_for_all(flow_.effects_[static_cast<size_t>(run.program)]);
            },
            [](const Update&) { return true; }, [](const IsOneOf<Send, Recv> auto&) { return false; },
            [&](const IsCollective auto& now) -> bool { return kind.outer[static_cast<size_t>(now.communicator)]; },
            [](const IsEvent auto&) { return false; }},
      action);
  bool differs = false;
  each_buffer(plan, action, [&](int32_t b) { differs = differs || kind.differs[static_cast<size_t>(b)]; });
  return stops || differs;
}

size_t Flow::Replicas::stop_of(size_t plan, size_t next) {
  const RankPlan& of = *flow_.ranks_[plan].plan;
  while (next < of.instructions.size() && !stops_at(of, kind(plan), of.instructions[next].action)) ++next;
  return next;
}

bool Flow::Replicas::play() {
  if (in_vain_ || flow_.transfers_->any_under_way()) return false;
  for (size_t replica = 1; replica < of_.size(); ++replica)
    if (!is_alike(replica)) return false;
  std::map<std::pair<int32_t, size_t>, size_t> stops;  // by kind and where it is
  for (const size_t plan : of_[0]) {
    Rank& rank = flow_.ranks_[plan];
    const auto [known, fresh] = stops.try_emplace({kind_of_[plan], rank.next}, 0);
    if (fresh) known->second = stop_of(plan, rank.next);
    rank.stop = known->second;
    num_replaced_.push_back(rank.contents.replaced().size());
  }
  if (!go_on(of_[0]) || flow_.asked_for_all_) return false;
  for (size_t replica = 1; replica < of_.size(); ++replica) set_to_first(replica);
  for (const size_t plan : of_[0]) flow_.ranks_[plan].stop = kNowhere;
  return true;
}

void Flow::Replicas::set_to_first(size_t replica) {
  Moved moved(flow_.ledger_, moved_by_[replica]);
  for (size_t i = 0; i < of_[0].size(); ++i) {
    const Rank& first = rank(0, i);
    Rank& other = rank(replica, i);
    const Kind& own = kind(of_[0][i]);
    other.contents.go_on_as(first.contents, first.next, own.differs, num_replaced_[i], moved);
    other.next = first.next;
    other.arrived = first.arrived;
    other.round = first.round;
    flow_.transfers_->go_on_as(other, first, own.outer, moved);
  }
}

}  // namespace piper::verify
