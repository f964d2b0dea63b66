#include "schemas/timeline/timeline.h"

#include <algorithm>

#include "schemas/plan/chunk_names.h"
#include "schemas/timeline/kernel_work.h"
#include "schemas/timeline/play.h"
#include "schemas/timeline/stages.h"

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

// Communication and updates are free.
class UnitCosts : public Pricing {
 public:
  UnitCosts(const Bundle& bundle, const Costs& costs) : bundle_(bundle), costs_(costs), stages_(bundle) {}

  Task local(size_t p, size_t i) const override {
    const auto& plan = bundle_.ranks[p];
    const auto* run = std::get_if<Run>(&plan.instructions[i].action);
    if (run == nullptr) return {0, 0, {}, false};
    const auto cost = cost_of(plan.arguments[static_cast<size_t>(run->arguments)].name, costs_, stages_);
    return {cost.value_or(0), 0, {}, cost.has_value()};
  }
  Task transfer(std::span<const TransferEnd>) const override { return {}; }

 private:
  const Bundle& bundle_;
  Costs costs_;
  Stages stages_;
};

class MeasuredTimes : public Pricing {
 public:
  MeasuredTimes(const Bundle& bundle, const Measured& measured)
      : bundle_(bundle), measured_(measured), load_(balanced_load(bundle)) {}

  Task local(size_t p, size_t i) const override { return {measured_.cost_us[p][i], 0}; }
  Task transfer(std::span<const TransferEnd>) const override { return {}; }
  // An end of a transfer has its own measured time, so each ends by itself.
  double behind_transfer(size_t p, size_t i, double under_way) const override {
    return measured_.cost_us[p][i] + travel_us(bundle_.ranks[p], bundle_.ranks[p].instructions[i].action, under_way);
  }

 private:
  // A message travels from when its sender came, whether or not its receiver is there. Sends are over when both are. A
  // sum is two rounds of messages, each of one part; the second is sent when the first has arrived.
  double travel_us(const RankPlan& plan, const Action& action, double under_way) const {
    if (std::holds_alternative<Send>(action)) return 0;
    const Link& link = measured_.link;
    int64_t bytes = 0;
    if (const auto* recv = std::get_if<Recv>(&action)) bytes = recv->bytes();
    if (const auto* exchange = std::get_if<AllToAll>(&action))
      bytes = static_cast<int64_t>(filled_part(plan, *exchange, load_) * static_cast<double>(exchange->bytes()));
    if (const auto* gather = std::get_if<AllGather>(&action)) bytes = gather->bytes();
    if (const auto* scatter = std::get_if<ReduceScatter>(&action))
      bytes = scatter->count * dtype_bytes(scatter->types.message);
    const auto* reduce = std::get_if<AllReduce>(&action);
    if (reduce != nullptr)
      bytes = reduce->count * dtype_bytes(reduce->types.message) /
              static_cast<int64_t>(plan.communicators.at(static_cast<size_t>(reduce->communicator)).ranks.size());
    const double round =
        link.latency_us + (link.bytes_per_second > 0 ? 1e6 * static_cast<double>(bytes) / link.bytes_per_second : 0);
    return std::max(0.0, round - under_way) + (reduce != nullptr ? round : 0);
  }

  const Bundle& bundle_;
  const Measured& measured_;
  RouterLoad load_;
};

}  // namespace

double idle_share(const Timeline& timeline, size_t plan) {
  double busy = 0;
  for (const Span& span : timeline.spans[plan]) busy += span.end - span.begin;
  return timeline.step > 0 ? std::max(0.0, 1 - busy / timeline.step) : 0;
}

Result<Timeline> simulate(const Bundle& bundle, const Costs& costs) {
  PIPER_ASSIGN(const auto matching, verify::match(bundle));
  return play(bundle, matching, UnitCosts(bundle, costs));
}

Result<Timeline> simulate_times(const Bundle& bundle, const Measured& measured) {
  PIPER_ASSIGN(const auto matching, verify::match(bundle));
  return play(bundle, matching, MeasuredTimes(bundle, measured));
}

}  // namespace piper::timeline
