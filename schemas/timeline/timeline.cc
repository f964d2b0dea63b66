#include "schemas/timeline/timeline.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "schemas/plan/actions.h"
#include "schemas/plan/all_reduce_scratch.h"
#include "schemas/timeline/kernel_work.h"
#include "schemas/timeline/play.h"
#include "schemas/timeline/stages.h"

namespace piper::timeline {
namespace {

using namespace plan;

// Nothing for runs that do not count: the step's own work, and the count of a loss's terms.
std::optional<double> cost_of(const Program& program, const Costs& costs, const Stages& stages) {
  if (!program.of) return std::nullopt;
  const Pass pass = program.of->pass;
  if (pass == Pass::kCount || pass == Pass::kCountFinish) return std::nullopt;
  const double stage = pass == Pass::kForward    ? costs.forward
                       : pass == Pass::kBackward ? costs.backward
                                                 : costs.backward / 2;
  return stage / static_cast<double>(stages.pieces_of(program.of->chunk, pass));
}

// Communication and updates are free.
class UnitCosts : public Pricing {
 public:
  UnitCosts(const Bundle& bundle, const Costs& costs) : bundle_(bundle) {
    const Stages stages(bundle);
    for (const Program& program : bundle.programs) costs_.push_back(cost_of(program, costs, stages));
  }

  Task local(size_t p, size_t i) const override {
    const Run* const run = run_of(bundle_.ranks[p].instructions[i].action);
    if (run == nullptr) return {0, 0, {}, false};
    const std::optional<double> cost = costs_[static_cast<size_t>(run->program)];
    return {cost.value_or(0), 0, {}, cost.has_value()};
  }
  Task transfer(std::span<const TransferEnd>) const override { return {}; }

 private:
  const Bundle& bundle_;
  std::vector<std::optional<double>> costs_;  // [program]
};

class MeasuredTimes : public Pricing {
 public:
  MeasuredTimes(const Bundle& bundle, const Measured& measured)
      : bundle_(bundle), measured_(measured), load_(balanced_load(bundle)) {}

  Task local(size_t p, size_t i) const override { return {measured_.cost_us[p][i], 0}; }
  Task transfer(std::span<const TransferEnd>) const override { return {}; }
  bool has_messages() const override { return true; }
  // Sends are over when both ends are there. A sum has a round of messages for each of its pieces; of an all_reduce
  // those that hand out the sum of a piece go with the next one, and those of the last piece are a round of their own.
  Messages messages(size_t p, size_t i) const override {
    const RankPlan& plan = bundle_.ranks[p];
    const Action& action = plan.instructions[i].action;
    const Link& link = measured_.link;
    const auto port_us = [&](double bytes) {
      return link.bytes_per_second > 0 ? 1e6 * bytes / link.bytes_per_second : 0;
    };
    Messages own;
    own.latency = link.latency_us;
    own.own = measured_.cost_us[p][i];
    own.receives = !std::holds_alternative<Send>(action);
    const auto members_of = [&](int32_t communicator) {
      return static_cast<int64_t>(plan.communicators.at(static_cast<size_t>(communicator)).ranks.size());
    };
    // Bytes that a member of a collective sends to each other one, and that it receives.
    const auto to_all_others = [&](int32_t communicator, double part) {
      own.out = own.in = port_us(part * static_cast<double>(members_of(communicator) - 1)) / own.rounds;
    };
    std::visit(Cases{[&](const Send& a) { own.out = port_us(static_cast<double>(a.bytes())); },
                     [&](const Recv& a) { own.in = port_us(static_cast<double>(a.bytes())); },
                     [&](const AllReduce& a) {
                       const int64_t n = members_of(a.communicator), element = dtype_bytes(a.types.message);
                       own.rounds = static_cast<int>(pieces_of_segment(segment_bytes(a.count, n, element), n)) + 1;
                       to_all_others(a.communicator,
                                     2 * static_cast<double>(a.count * element) / static_cast<double>(n));
                     },
                     [&](const ReduceScatter& a) {
                       const int64_t bytes = a.count * dtype_bytes(a.types.message);
                       own.rounds = static_cast<int>(pieces_of_segment(bytes, members_of(a.communicator)));
                       to_all_others(a.communicator, static_cast<double>(bytes));
                     },
                     [&](const AllGather& a) { to_all_others(a.communicator, static_cast<double>(a.bytes())); },
                     [&](const AllToAll& a) {
                       to_all_others(a.communicator, filled_part(plan, a, load_) * static_cast<double>(a.bytes()));
                     },
                     [](const IsLaunch auto&) {}, [](const IsEvent auto&) {}},
               action);
    return own;
  }

 private:
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

double bubble(const Timeline& timeline) {
  double idle = 0;
  for (size_t p = 0; p < timeline.spans.size(); ++p) idle += idle_share(timeline, p);
  return timeline.spans.empty() ? 0 : idle / static_cast<double>(timeline.spans.size());
}

double bubble(const Kinds& kinds, const Timeline& timeline) {
  double idle = 0, ranks = 0;
  for (size_t kind = 0; kind < kinds.num_ranks.size(); ++kind) {
    const auto number = static_cast<double>(kinds.num_ranks[kind]);
    idle += number * idle_share(timeline, kind);
    ranks += number;
  }
  return ranks > 0 ? idle / ranks : 0;
}

Result<Timeline> simulate(const Bundle& bundle, const Costs& costs) {
  PIPER_ASSIGN(const auto matching, verify::match(bundle));
  return play(bundle, matching, UnitCosts(bundle, costs));
}

Timeline simulate(const Kinds& kinds, const Costs& costs) {
  return play(kinds.bundle, kinds.matching, UnitCosts(kinds.bundle, costs));
}

Result<Timeline> simulate_times(const Bundle& bundle, const Measured& measured) {
  PIPER_ASSIGN(const auto matching, verify::match(bundle));
  return play(bundle, matching, MeasuredTimes(bundle, measured));
}

}  // namespace piper::timeline
