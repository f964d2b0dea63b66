#include "compiler/search/stage_costs.h"

#include <algorithm>

#include "compiler/search/write_strategy.h"
#include "schemas/plan/actions.h"
#include "schemas/timeline/priced.h"

namespace piper::search {
namespace {

// The probe's point: one replica for each part of the experts, each stage on ranks of its own.
Point probe_point(const Shape& shape, int32_t microbatches) {
  Point point;
  point.pp = shape.stages;
  point.ep = shape.ep;
  point.tp = shape.tp;
  point.sequence = shape.sequence;
  point.vocabulary = shape.vocabulary;
  point.repeated = shape.repeated;
  point.family = shape.halves ? "zero_bubble" : "gpipe";
  point.microbatches = microbatches;
  return point;
}

int32_t stage_of_rank(const Shape& shape, int32_t rank) { return rank / (shape.ep * shape.tp); }

PassCost* cost_of(StageCost& stage, plan::Pass pass) {
  switch (pass) {
    case plan::Pass::kForward: return &stage.forward;
    case plan::Pass::kBackward: return &stage.backward;
    case plan::Pass::kBackwardInput: return &stage.backward_input;
    case plan::Pass::kBackwardWeight: return &stage.backward_weight;
    case plan::Pass::kCount:
    case plan::Pass::kCountFinish: return nullptr;
  }
  return nullptr;
}

// Of several ranks the least counts, so that no bound is above what one of them takes.
void take_least(PassCost& kept, const PassCost& other) {
  kept.alone = std::min(kept.alone, other.alone);
  kept.work = std::min(kept.work, other.work);
}

}  // namespace

bool splits_backwards(const std::string& family) {
  return family != "gpipe" && family != "1f1b" && family != "interleaved_1f1b";
}

Shape shape_of(const Point& point, int64_t batch) {
  Shape shape;
  shape.stages = point.stages();
  shape.ep = point.ep;
  shape.tp = point.tp;
  shape.sequence = point.sequence;
  shape.vocabulary = point.vocabulary;
  shape.repeated = point.repeated;
  shape.samples = batch / (static_cast<int64_t>(point.replicas()) * point.microbatches);
  shape.halves = splits_backwards(point.family);
  return shape;
}

const StageCosts& StageProbes::of(const Shape& shape) {
  const auto found = known_.find(shape);
  return found != known_.end() ? found->second : known_.emplace(shape, probe(shape)).first->second;
}

StageCosts StageProbes::probe(const Shape& shape) {
  StageCosts costs;
  costs.stages.resize(static_cast<size_t>(shape.stages));
  if (shape.halves) {
    // Halves keep what a whole backward keeps, at least.
    Shape whole = shape;
    whole.halves = false;
    costs = of(whole);
    if (!costs.why_not.empty()) return costs;
  }
  const int64_t samples = shape.samples * shape.ep;
  Compiled one = pricer_.compile(strategy_of(probe_point(shape, 1), base_, experts_), samples);
  if (one.compilation == nullptr) {
    costs.why_not = one.why_not;
    return costs;
  }
  if (!shape.halves) read_memory(shape, one.bundle(), costs);
  if (const Status read = read_passes(shape, std::move(one), costs); !read.ok()) costs.why_not = read.error().message;
  if (shape.halves) return costs;
  const Compiled two = pricer_.compile(strategy_of(probe_point(shape, 2), base_, experts_), 2 * samples);
  if (two.compilation == nullptr) return costs;
  for (int32_t s = 0; s < shape.stages; ++s) {
    StageCost& stage = costs.stages[static_cast<size_t>(s)];
    const auto rank = static_cast<size_t>(s) * static_cast<size_t>(shape.ep * shape.tp);
    stage.saved_bytes = std::max<int64_t>(
        0, two.bundle().manifest.ranks[rank].peak_bytes - stage.persistent_bytes - stage.one_microbatch_bytes);
  }
  return costs;
}

void StageProbes::read_memory(const Shape& shape, const plan::Bundle& bundle, StageCosts& costs) const {
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    const plan::RankPlan& plan = bundle.ranks[p];
    if (plan.rank % (shape.ep * shape.tp) != 0) continue;  // the others of its stage are like it, or have less
    StageCost& stage = costs.stages[static_cast<size_t>(stage_of_rank(shape, plan.rank))];
    const plan::RankSummary& summary = bundle.manifest.ranks[static_cast<size_t>(plan.rank)];
    stage.persistent_bytes = summary.persistent_bytes;
    stage.one_microbatch_bytes = summary.peak_bytes - summary.persistent_bytes;
    for (const plan::Placement& placement : plan.placements) {
      const int64_t bytes = placement.part.count * dtype_bytes(placement.dtype);
      switch (placement.kind) {
        case plan::PlacementKind::kMaster:
        case plan::PlacementKind::kFirstMoment:
        case plan::PlacementKind::kSecondMoment: stage.optimizer_bytes += bytes; break;
        case plan::PlacementKind::kGradient:
          stage.gradient_bytes += bytes;
          stage.gradients += static_cast<double>(placement.part.count);
          break;
        case plan::PlacementKind::kValue:
        case plan::PlacementKind::kWorking: stage.parameter_bytes += bytes; break;
        case plan::PlacementKind::kState:
        case plan::PlacementKind::kConstant: break;
      }
    }
  }
}

Status StageProbes::read_passes(const Shape& shape, Compiled compiled, StageCosts& costs) const {
  // In a probe the host is as far ahead as its first passes let it, in a step it can be further: spans are without it.
  timeline::Machine without_host = pricer_.machine();
  without_host.host_us = 0;
  PIPER_ASSIGN(const PlayedStep step, pricer_.play(std::move(compiled), without_host));
  const timeline::Priced prices(step.kinds, pricer_.machine(), 1, pricer_.times());
  std::vector<bool> seen(costs.stages.size(), false);
  for (size_t p = 0; p < step.kinds.ranks.size(); ++p) {
    const plan::RankPlan& plan = step.kinds.ranks[p];
    StageCost own;
    std::map<plan::Pass, std::pair<double, double>> span;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const int32_t program = plan::launch_of(plan.instructions[i].action).program;
      if (program < 0) continue;
      const double us = prices.local(p, i).shared;
      const auto& of = step.kinds.programs[static_cast<size_t>(program)].of;
      if (!of) {
        own.update_us += us;
        continue;
      }
      PassCost* cost = cost_of(own, of->pass);
      if (cost == nullptr) continue;
      cost->work += us;
      const timeline::Activity& activity = step.timeline.activities[p][i];
      const auto [at, is_new] = span.try_emplace(of->pass, activity.begin, activity.end);
      if (is_new) continue;
      at->second.first = std::min(at->second.first, activity.begin);
      at->second.second = std::max(at->second.second, activity.end);
    }
    for (const auto& [pass, from_to] : span) {
      PassCost* cost = cost_of(own, pass);
      // The backward of the only microbatch is also the last one: sums of gradients over `ep` go on beside it.
      const bool sums = shape.ep > 1 && pass != plan::Pass::kForward;
      cost->alone = sums ? cost->work : std::max(cost->work, from_to.second - from_to.first);
    }
    if (shape.halves) {  // one after the other where a schedule wants them as one
      own.backward.alone = own.backward_input.alone + own.backward_weight.alone;
      own.backward.work = own.backward_input.work + own.backward_weight.work;
    }
    const auto at = static_cast<size_t>(stage_of_rank(shape, plan.rank));
    StageCost& stage = costs.stages[at];
    if (!seen[at]) {
      stage.forward = own.forward;
      stage.backward = own.backward;
      stage.backward_input = own.backward_input;
      stage.backward_weight = own.backward_weight;
      stage.update_us = own.update_us;
    } else {
      take_least(stage.forward, own.forward);
      take_least(stage.backward, own.backward);
      take_least(stage.backward_input, own.backward_input);
      take_least(stage.backward_weight, own.backward_weight);
      stage.update_us = std::min(stage.update_us, own.update_us);
    }
    seen[at] = true;
  }
  return {};
}

}  // namespace piper::search
