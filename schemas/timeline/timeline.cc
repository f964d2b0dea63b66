#include "schemas/timeline/timeline.h"

#include <algorithm>

#include "schemas/plan/chunk_names.h"
#include "schemas/plan/collective_costs.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_reader.h"
#include "schemas/timeline/stages.h"
#include "schemas/verify/match.h"

namespace piper::timeline {
namespace {

using namespace plan;

// Nothing for runs that do not count: the step's own work, and the count of a loss's terms.
std::optional<double> cost_of(const std::string& argument_list, const Costs& costs, const Stages& stages) {
  const auto run = chunk_run(argument_list);
  if (!run || run->pass == "C" || run->pass == "N") return std::nullopt;
  const double stage = run->pass == "F" ? costs.forward : run->pass == "B" ? costs.backward : costs.backward / 2;
  return stage / static_cast<double>(stages.pieces_of(run->chunk, run->pass));
}

class Simulator {
 public:
  // `measured`: nullptr for unit costs.
  Simulator(const Bundle& bundle, const verify::Matching& matching, const Costs& costs, const Measured* measured)
      : bundle_(bundle),
        matching_(matching),
        costs_(costs),
        stages_(bundle),
        measured_(measured),
        missing_(matching.first.size() - 1),
        latest_(missing_.size()) {
    for (size_t t = 0; t < missing_.size(); ++t) missing_[t] = matching.first[t + 1] - matching.first[t];
    for (const auto& plan : bundle.ranks) {
      next_.push_back(0);
      arrived_.push_back(0);
      streams_.emplace_back(plan.streams.size());
      events_.emplace_back(plan.events.size());
      timeline_.spans.emplace_back();
    }
  }

  Timeline play() {
    std::vector<size_t> ready;
    for (size_t p = bundle_.ranks.size(); p-- > 0;) ready.push_back(p);
    while (!ready.empty()) {
      const size_t p = ready.back();
      ready.pop_back();
      run_rank(p, ready);
    }
    for (const auto& streams : streams_)
      for (const double end : streams) timeline_.step = std::max(timeline_.step, end);
    return std::move(timeline_);
  }

 private:
  // In issue order, which never blocks a verified bundle for good, until a transfer lacks its other end.
  void run_rank(size_t p, std::vector<size_t>& ready) {
    const auto& plan = bundle_.ranks[p];
    for (; next_[p] < plan.instructions.size(); ++next_[p], arrived_[p] = 0) {
      const auto& instruction = plan.instructions[next_[p]];
      double& now = streams_[p][static_cast<size_t>(instruction.stream)];
      const int32_t transfer = matching_.transfer_of[p][next_[p]];
      if (transfer >= 0) {
        const auto t = static_cast<size_t>(transfer);
        if (!arrived_[p]) {
          arrived_[p] = 1;
          latest_[t] = std::max(latest_[t], now);
          if (--missing_[t] == 0)
            for (auto k = matching_.first[t]; k < matching_.first[t + 1]; ++k)
              ready.push_back(static_cast<size_t>(matching_.participants[static_cast<size_t>(k)].plan));
        }
        if (missing_[t] > 0) return;
        now = latest_[t] +
              (measured_ == nullptr ? 0 : measured_->cost_us[p][next_[p]] + travel_us(plan, instruction.action));
      } else {
        local(p, instruction, now);
      }
    }
  }

  // Sends are over when the receiver's end begins to travel. A sum is two rounds of messages, each of one part.
  double travel_us(const RankPlan& plan, const Action& action) const {
    if (std::holds_alternative<Send>(action)) return 0;
    const Link& link = measured_->link;
    const bool sum = std::holds_alternative<AllReduce>(action);
    int64_t bytes = 0;
    if (const auto* recv = std::get_if<Recv>(&action)) bytes = recv->bytes();
    if (const auto* exchange = std::get_if<AllToAll>(&action)) bytes = exchange->bytes();
    if (const auto* gather = std::get_if<AllGather>(&action)) bytes = gather->bytes();
    if (const auto* scatter = std::get_if<ReduceScatter>(&action))
      bytes = scatter->count * dtype_bytes(scatter->types.message);
    if (const auto* reduce = std::get_if<AllReduce>(&action))
      bytes = 2 * reduce->count * dtype_bytes(reduce->types.message) /
              static_cast<int64_t>(plan.communicators.at(static_cast<size_t>(reduce->communicator)).ranks.size());
    const double transmission =
        link.bytes_per_second > 0 ? 1e6 * static_cast<double>(bytes) / link.bytes_per_second : 0;
    return (sum ? 2 : 1) * link.latency_us + transmission;
  }

  void local(size_t p, const Instruction& instruction, double& now) {
    const auto& plan = bundle_.ranks[p];
    if (const auto* wait = std::get_if<Wait>(&instruction.action)) {
      now = std::max(now, events_[p][static_cast<size_t>(wait->event)]);
    } else if (const auto* record = std::get_if<Record>(&instruction.action)) {
      events_[p][static_cast<size_t>(record->event)] = now;
    } else if (measured_ != nullptr) {
      const double begin = now;
      now += measured_->cost_us[p][next_[p]];
      timeline_.spans[p].push_back({static_cast<int32_t>(next_[p]), begin, now});
    } else if (const auto* run = std::get_if<Run>(&instruction.action)) {
      const auto cost = cost_of(plan.arguments[static_cast<size_t>(run->arguments)].name, costs_, stages_);
      if (!cost) return;
      const double begin = now;
      now += *cost;
      timeline_.spans[p].push_back({static_cast<int32_t>(next_[p]), begin, now});
    }
  }

  const Bundle& bundle_;
  const verify::Matching& matching_;
  Costs costs_;
  Stages stages_;
  const Measured* measured_;
  std::vector<int64_t> missing_;  // per transfer: participants that have not come
  std::vector<double> latest_;
  std::vector<size_t> next_;   // per loaded rank
  std::vector<char> arrived_;  // its next instruction has been counted at its transfer
  std::vector<std::vector<double>> streams_, events_;
  Timeline timeline_;
};

}  // namespace

double idle_share(const Timeline& timeline, size_t plan) {
  double busy = 0;
  for (const Span& span : timeline.spans[plan]) busy += span.end - span.begin;
  return timeline.step > 0 ? std::max(0.0, 1 - busy / timeline.step) : 0;
}

Result<Timeline> simulate(const Bundle& bundle, const Costs& costs) {
  PIPER_ASSIGN(const auto matching, verify::match(bundle));
  return Simulator(bundle, matching, costs, nullptr).play();
}

Result<Timeline> simulate_times(const Bundle& bundle, const Measured& measured) {
  PIPER_ASSIGN(const auto matching, verify::match(bundle));
  return Simulator(bundle, matching, {}, &measured).play();
}

Result<Measured> read_profile(const Bundle& bundle, const std::string& path) {
  PIPER_ASSIGN(const auto file, map_file(path));
  Measured measured;
  for (const auto& plan : bundle.ranks) measured.cost_us.emplace_back(plan.instructions.size(), -1.0);
  const std::string_view text = file.text();
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    JsonReader reader(text.substr(begin, end - begin), path);
    begin = end + 1;
    const auto failure = [&](const std::string& what) {
      return Status::failure("", path + ":" + std::to_string(line) + ": " + what);
    };
    reader.open_object();
    reader.key("rank");
    const int32_t rank = reader.small_integer();
    reader.key("instruction");
    const int64_t instruction = reader.integer();
    for (const char* name : {"stream", "what"}) {
      reader.key(name);
      (void)reader.string();
    }
    double cost_us = 0;
    for (const char* name : {"begin_us", "end_us", "cpu_us"}) {
      reader.key(name);
      cost_us = reader.real();
    }
    reader.close_object();
    if (!reader.ok()) return failure("this is no line of a profile");
    const auto found =
        std::find_if(bundle.ranks.begin(), bundle.ranks.end(), [&](const RankPlan& plan) { return plan.rank == rank; });
    if (found == bundle.ranks.end()) return failure("the bundle has no rank " + std::to_string(rank));
    auto& costs = measured.cost_us[static_cast<size_t>(found - bundle.ranks.begin())];
    if (instruction < 0 || static_cast<size_t>(instruction) >= costs.size())
      return failure("rank " + std::to_string(rank) + " has no instruction " + std::to_string(instruction));
    costs[static_cast<size_t>(instruction)] = cost_us;
  }
  for (size_t p = 0; p < measured.cost_us.size(); ++p)
    if (std::find(measured.cost_us[p].begin(), measured.cost_us[p].end(), -1.0) != measured.cost_us[p].end())
      return Status::failure(
          "", path + " lacks instructions of rank " + std::to_string(bundle.ranks[p].rank) + ": it is of another plan");
  return measured;
}

}  // namespace piper::timeline
