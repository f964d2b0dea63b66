#include "compiler/search/stage_costs.h"

#include <algorithm>
#include <type_traits>

#include "compiler/passes/cut_heads.h"
#include "compiler/search/live_bytes.h"
#include "compiler/search/pass_exchanges.h"
#include "compiler/search/write_strategy.h"
#include "schemas/plan/actions.h"
#include "schemas/plan/device_memory.h"
#include "schemas/plan/head_blocks.h"
#include "schemas/timeline/priced.h"

namespace piper::search {
namespace {

// Microbatches of the probe that says what a further one saves, and what passes take that follow on others.
constexpr int32_t kSeveral = 3;
// How many replicas a stage has in a probe.
int32_t replicas_of(const Shape& shape) { return shape.replicated ? 2 : shape.ep; }
int32_t ranks_of_stage(const Shape& shape) { return replicas_of(shape) * shape.tp; }
// The probe's point: one replica for each part of the experts, each stage on ranks of its own.
Point probe_point(const Shape& shape, int32_t microbatches) {
  Point point;
  point.pp = shape.stages;
  point.dp = replicas_of(shape) / shape.ep;
  point.ep = shape.ep;
  point.tp = shape.tp;
  point.sequence = shape.sequence;
  point.vocabulary = shape.vocabulary;
  point.repeated = shape.repeated;
  point.family = shape.halves ? "zero_bubble" : "gpipe";
  point.microbatches = microbatches;
  return point;
}

int32_t stage_of_rank(const Shape& shape, int32_t rank) { return rank / ranks_of_stage(shape); }

// The peak of a rank of a probe. Its ranks may share other nodes than those of the strategies that it stands for, so
// that NCCL keeps less for them; on one node it is the same.
int64_t peak_of(const plan::Bundle& bundle, size_t rank, bool on_one_node) {
  const int64_t peak = bundle.manifest.ranks[rank].peak_bytes;
  if (on_one_node) return peak;
  const plan::RankPlan& plan = bundle.ranks[rank];
  const plan::Target& target = bundle.manifest.target;
  return peak - plan::communicator_bytes(plan, target) + plan::least_communicator_bytes(plan, target);
}

PassCost* passes_cost(StageCost& stage, plan::Pass pass) {
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

// The least of several ranks counts, so that no bound is above what one of them takes.
void take_least(PassCost& kept, const PassCost& other) {
  kept.alone = std::min(kept.alone, other.alone);
  kept.work = std::min(kept.work, other.work);
}

// What a call of a head takes more in blocks than the same for all rows at once, of which the gradients make the logits
// no second time.
double in_blocks_us(const plan::KernelCall& call, const timeline::Priced& prices) {
  if (!plan::is_of_blocks(call.kernel)) return 0;
  const bool forward = call.kernel == plan::Kernel::kLinearCrossEntropy;
  double at_once = 0;
  for (const plan::KernelCall& one : plan::calls_on_all_rows(call, false)) {
    const bool again = one.kernel == plan::Kernel::kLinear || one.kernel == plan::Kernel::kCast ||
                       one.kernel == plan::Kernel::kCrossEntropyBackward;
    if (forward || !again) at_once += prices.call_us(one);
  }
  return std::max(0.0, prices.call_us(call) - at_once);
}

// A backward that repeats its forward begins with that, exchanges and all, and may then wait for its gradient.
void settle(const Shape& shape, StageCosts& costs) {
  if (shape.repeated == Repeated::kNothing) return;
  for (StageCost& stage : costs.stages) stage.repeated_us = stage.forward.alone;
}

}  // namespace

bool splits_backwards(const std::string& family) {
  return family != "gpipe" && family != "1f1b" && family != "interleaved_1f1b";
}

bool needs_replicas(const Shape& shape, int32_t devices) {
  return shape.repeated != Repeated::kNothing && shape.ep == 1 && shape.tp == 1 && devices > 1;
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
  shape.replicated = needs_replicas(shape, point.replicas());
  return shape;
}

StageProbes::~StageProbes() {
  for (const auto& [shape, probe] : probes_) MadeAhead::abandon(probe.work);
}

bool StageProbes::by_line(const Shape& shape) const {
  const bool exchanges = shape.tp > 1 || shape.ep > 1;
  // Measured times are there for some numbers of samples and not for others.
  // Rows that experts have room for are rounded up.
  return !only_ && !exchanges && base_.capacity.empty() && !measured() && shape.samples > least_samples_ + 1;
}

size_t StageProbes::begin(const Shape& shape) {
  if (known_.contains(shape)) return 0;
  if (!by_line(shape)) return begin_probes(shape);
  size_t begun = 0;
  Shape end = shape;
  for (end.samples = least_samples_; end.samples <= least_samples_ + 1; ++end.samples) begun += begin_probes(end);
  return begun;
}

size_t StageProbes::begin_probes(const Shape& shape) {
  size_t begun = 0;
  for (const bool halves : {false, true}) {
    if (halves && !shape.halves) continue;
    Shape part = shape;
    part.halves = halves;
    const auto [at, fresh] = probes_.try_emplace(part);
    if (!fresh) continue;
    Probe& probe = at->second;
    probe.work = pricer_.ahead().offer([this, part, &probe] { probe.costs = this->probe(part); });
    ++begun;
  }
  return begun;
}

const StageCosts& StageProbes::probed(const Shape& shape) {
  Probe& probe = probes_.at(shape);
  if (!probe.taken) {
    pricer_.ahead().finish(probe.work);
    compiled_ += probe.costs.compiled;
  }
  probe.taken = true;
  return probe.costs;
}

const StageCosts& StageProbes::of(const Shape& shape) {
  const auto found = known_.find(shape);
  if (found != known_.end()) return found->second;
  return known_.emplace(shape, by_line(shape) ? extrapolated(shape) : measured_at(shape)).first->second;
}

StageCosts StageProbes::measured_at(const Shape& shape) {
  begin_probes(shape);
  Shape whole = shape;
  whole.halves = false;
  const StageCosts& costs = probed(whole);
  if (!shape.halves || !costs.why_not.empty()) return costs;
  StageCosts halves = probed(shape);
  // Halves keep what a whole backward keeps, at least.
  for (size_t s = 0; s < halves.stages.size(); ++s) {
    const int64_t between_halves = halves.stages[s].between_halves_bytes;
    static_cast<StageMemory&>(halves.stages[s]) = costs.stages[s];
    halves.stages[s].between_halves_bytes = between_halves;
  }
  halves.logits_bytes = std::max(halves.logits_bytes, costs.logits_bytes);
  halves.block_bytes = std::max(halves.block_bytes, costs.block_bytes);
  return halves;
}

StageCosts StageProbes::extrapolated(const Shape& shape) {
  Shape smaller = shape;
  smaller.samples = least_samples_;
  StageCosts first = of(smaller);
  if (!first.why_not.empty()) return first;
  // What is made in blocks here and was whole there takes less than a line says.
  if (first.block_bytes == 0 && first.logits_bytes / smaller.samples * shape.samples > passes::kWorthCutting)
    return measured_at(shape);
  ++smaller.samples;
  StageCosts costs = of(smaller);
  if (!costs.why_not.empty()) return costs;
  const auto more = static_cast<double>(shape.samples - smaller.samples);
  const auto line = [more](auto& to, auto from) {
    to += static_cast<std::remove_reference_t<decltype(to)>>(more * std::max(0.0, static_cast<double>(to - from)));
  };
  for (size_t s = 0; s < costs.stages.size(); ++s) {
    StageCost& stage = costs.stages[s];
    const StageCost& before = first.stages[s];
    for (PassCost StageCost::* pass :
         {&StageCost::forward, &StageCost::backward, &StageCost::backward_input, &StageCost::backward_weight}) {
      line((stage.*pass).alone, (before.*pass).alone);
      line((stage.*pass).work, (before.*pass).work);
    }
    line(stage.repeated_us, before.repeated_us);
    line(stage.in_blocks_us, before.in_blocks_us);
    // The peak beside a block grows along a line at least, and blocks of other numbers of samples may be smaller.
    stage.one_microbatch_bytes = std::max<int64_t>(0, stage.one_microbatch_bytes - costs.block_bytes);
    stage.in_passes_bytes = std::max<int64_t>(0, stage.in_passes_bytes - costs.block_bytes);
    line(stage.one_microbatch_bytes, before.one_microbatch_bytes);
    line(stage.in_passes_bytes, before.in_passes_bytes);
    line(stage.saved_bytes, before.saved_bytes);
    line(stage.between_halves_bytes, before.between_halves_bytes);
  }
  return costs;
}

Compiled StageProbes::compiled_for(const Shape& shape, int32_t microbatches, StageCosts& costs) const {
  ++costs.compiled;
  const int64_t samples = shape.samples * replicas_of(shape) * microbatches;
  return pricer_.probe(strategy_of(probe_point(shape, microbatches), base_, experts_), samples);
}

Status StageProbes::read_one(const Shape& shape, StageCosts& costs) const {
  costs.stages.resize(static_cast<size_t>(shape.stages));
  Compiled one = compiled_for(shape, 1, costs);
  if (one.compilation == nullptr) return Status::failure("", one.why_not);
  for (const passes::Head& head : passes::find_heads(one.compilation->module)) {
    if (!head.why_not.empty()) continue;
    costs.logits_bytes = std::max(costs.logits_bytes, head.logits);
    costs.block_bytes = std::max(costs.block_bytes, head.work);
  }
  if (shape.halves) read_between_halves(shape, one.bundle(), costs);
  else read_memory(shape, one.bundle(), costs);
  return read_passes(shape, std::move(one), costs);
}

StageCosts StageProbes::probe(const Shape& shape) const {
  StageCosts costs;
  if (const Status read = read_one(shape, costs); !read.ok()) {
    costs.why_not = read.error().message;
    return costs;
  }
  Compiled several = compiled_for(shape, kSeveral, costs);
  if (several.compilation == nullptr) return costs;
  for (int32_t s = 0; s < shape.stages && !shape.halves; ++s) {
    StageCost& stage = costs.stages[static_cast<size_t>(s)];
    const auto rank = static_cast<size_t>(s) * static_cast<size_t>(ranks_of_stage(shape));
    const int64_t more =
        peak_of(several.bundle(), rank, on_one_node()) - stage.persistent_bytes - stage.one_microbatch_bytes;
    stage.saved_bytes = std::max<int64_t>(0, more / (kSeveral - 1));
  }
  StageCosts among_others;
  among_others.stages.resize(costs.stages.size());
  if (const Status read = read_passes(shape, std::move(several), among_others); !read.ok()) return costs;
  for (size_t s = 0; s < costs.stages.size(); ++s)
    for (PassCost StageCost::* pass :
         {&StageCost::forward, &StageCost::backward, &StageCost::backward_input, &StageCost::backward_weight})
      take_least(costs.stages[s].*pass, among_others.stages[s].*pass);
  settle(shape, costs);
  return costs;
}

void StageProbes::read_memory(const Shape& shape, const plan::Bundle& bundle, StageCosts& costs) const {
  std::map<std::string, int32_t> first;  // stage that has it
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    const plan::RankPlan& plan = bundle.ranks[p];
    if (plan.rank % ranks_of_stage(shape) != 0) continue;  // the others of its stage are like it, or have less
    StageCost& stage = costs.stages[static_cast<size_t>(stage_of_rank(shape, plan.rank))];
    const plan::RankSummary& summary = bundle.manifest.ranks[static_cast<size_t>(plan.rank)];
    stage.persistent_bytes = summary.persistent_bytes;
    stage.one_microbatch_bytes = peak_of(bundle, p, on_one_node()) - summary.persistent_bytes;
    stage.in_passes_bytes = most_live_in_passes(bundle, plan);
    for (const plan::Placement& placement : plan.placements) {
      const int64_t bytes = placement.part.count * dtype_bytes(placement.dtype);
      const int32_t own = stage_of_rank(shape, plan.rank);
      const bool tied = first.emplace(placement.name, own).first->second != own;
      if (tied && placement.kind == plan::PlacementKind::kGradient)
        stage.tied_gradients += static_cast<double>(placement.part.count);
      else if (tied) stage.tied_bytes += bytes;
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

void StageProbes::read_between_halves(const Shape& shape, const plan::Bundle& bundle, StageCosts& costs) const {
  for (const plan::RankPlan& plan : bundle.ranks)
    if (plan.rank % ranks_of_stage(shape) == 0)
      costs.stages[static_cast<size_t>(stage_of_rank(shape, plan.rank))].between_halves_bytes =
          bytes_between_halves(bundle, plan);
}

Status StageProbes::read_passes(const Shape& shape, Compiled compiled, StageCosts& costs) const {
  // In a probe the host is as far ahead as its first passes let it, in a step it can be further.
  const auto microbatches = static_cast<size_t>(compiled.compilation->module.step.num_microbatches);
  PIPER_ASSIGN(const PlayedStep step, pricer_.play(std::move(compiled), true));
  std::vector<double> in_blocks;  // [program]
  for (const plan::Program& program : step.kinds->bundle.programs) {
    in_blocks.push_back(0);
    for (const plan::KernelCall& call : program.calls) in_blocks.back() += in_blocks_us(call, *step.prices);
  }
  std::vector<bool> seen(costs.stages.size(), false);
  for (size_t p = 0; p < step.kinds->bundle.ranks.size(); ++p) {
    const plan::RankPlan& plan = step.kinds->bundle.ranks[p];
    StageCost own;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const int32_t program = plan::launch_of(plan.instructions[i].action).program;
      if (program < 0) continue;
      const double us = step.prices->local(p, i).shared;
      const auto& of = step.kinds->bundle.programs[static_cast<size_t>(program)].of;
      if (!of) {
        const bool of_weights = std::holds_alternative<plan::Update>(plan.instructions[i].action);
        (of_weights ? own.update_us : own.once_us) += us;
        continue;
      }
      PassCost* cost = passes_cost(own, of->pass);
      if (cost == nullptr) continue;
      cost->work += us;
      own.in_blocks_us += in_blocks[static_cast<size_t>(program)] / static_cast<double>(microbatches);
    }
    for (const auto& [pass, inside] : exchanges_of_passes(step, p, microbatches)) {
      PassCost* cost = passes_cost(own, pass);
      if (cost == nullptr) continue;
      cost->work /= static_cast<double>(microbatches);
      // The backward of the only microbatch is also the last one: sums of gradients over `ep` go on beside it, and
      // slow its exchanges.
      const bool sums = shape.ep > 1 && pass != plan::Pass::kForward;
      cost->alone = cost->work + (sums ? 0 : *std::min_element(inside.begin(), inside.end()));
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
      stage.in_blocks_us = own.in_blocks_us;
      stage.once_us = own.once_us;
    } else {
      take_least(stage.forward, own.forward);
      take_least(stage.backward, own.backward);
      take_least(stage.backward_input, own.backward_input);
      take_least(stage.backward_weight, own.backward_weight);
      stage.update_us = std::min(stage.update_us, own.update_us);
      stage.in_blocks_us = std::max(stage.in_blocks_us, own.in_blocks_us);
      stage.once_us = std::min(stage.once_us, own.once_us);
    }
    seen[at] = true;
  }
  return {};
}

}  // namespace piper::search
