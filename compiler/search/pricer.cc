#include "compiler/search/pricer.h"

#include <algorithm>
#include <optional>

#include "compiler/driver/run_pipeline.h"
#include "compiler/search/kept_bindings.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/tokens_of_sample.h"
#include "schemas/timeline/assess.h"
#include "schemas/timeline/play.h"
#include "schemas/timeline/priced.h"
#include "schemas/verify/fold_ranks.h"
#include "schemas/verify/match.h"

namespace piper::search {
namespace {

// Whether no rank shares a device, a port or a memory with another one.
bool ranks_share_nothing(const timeline::Machine& machine) {
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
bool lie_alike(const plan::RankPlan& plan, const plan::RankPlan& first, int32_t ranks_of_node) {
  const auto leaves = [&](const plan::RankPlan& from, size_t channel) {
    return from.rank / ranks_of_node != from.channels[channel].peer / ranks_of_node;
  };
  for (size_t c = 0; c < plan.channels.size(); ++c)
    if (leaves(plan, c) != leaves(first, c)) return false;
  for (size_t c = 0; c < plan.communicators.size(); ++c)
    if (nodes_of(plan.communicators[c].ranks, ranks_of_node) != nodes_of(first.communicators[c].ranks, ranks_of_node))
      return false;
  return true;
}

// [rank] -> the first of its kind, where all of a kind share nothing and lie alike on nodes; else nothing.
std::vector<int32_t> like_and_alone(const plan::Bundle& bundle, const timeline::Machine& machine) {
  if (!ranks_share_nothing(machine)) return {};
  std::vector<int32_t> like = plan::like_ranks(bundle);
  for (size_t p = 0; p < like.size(); ++p)
    if (like[p] >= 0 && !lie_alike(bundle.ranks[p], bundle.ranks[static_cast<size_t>(like[p])], machine.ranks_per_node))
      return {};
  return like;
}

class FarAhead : public timeline::Priced {
 public:
  using Priced::Priced;
  double issued(size_t, size_t) const override { return 0; }
};

std::string first_error(const diag::Diagnostics& diags) {
  for (const diag::Diagnostic& diagnostic : diags.all())
    if (diagnostic.severity == diag::Severity::kError) return diagnostic.code + ": " + diagnostic.message;
  return "it does not compile";
}

}  // namespace

Pricer::Pricer(driver::CompileOptions options, std::shared_ptr<frontend::ModelFile> model, timeline::Machine machine,
               plan::KernelTimes times)
    : options_(std::move(options)),
      model_(std::make_shared<KeptBindings>(std::move(model))),
      machine_(std::move(machine)),
      times_(std::move(times)) {}

Compiled Pricer::made(const std::string& text, int64_t batch, bool packs, diag::Diagnostics* diags) const {
  Compiled made;
  auto compilation = std::make_unique<driver::Compilation>();
  compilation->model = model_;
  driver::CompileOptions options = options_;
  options.reference = false;
  options.packs = packs;
  if (batch > 0) options.overrides.push_back("model.batch=" + std::to_string(batch));
  diag::Diagnostics own;
  diag::Diagnostics& errors = diags != nullptr ? *diags : own;
  try {
    const Status status = driver::compile_in_memory(options, text, *compilation, errors);
    if (!status.ok()) made.why_not = status.error().reported ? first_error(errors) : status.error().message;
  } catch (const driver::PassFailure& bug) {
    // Nobody wrote this strategy: it is left out, and the table says so.
    made.why_not = "bug in piperc: " + bug.pass() + ": " + bug.what();
  }
  if (made.why_not.empty()) made.compilation = std::move(compilation);
  return made;
}

Result<PlayedStep> Pricer::play(Compiled compiled, bool far_ahead) const {
  PlayedStep step;
  auto kinds = std::make_unique<plan::Bundle>(std::move(compiled.compilation->emitted.bundle));
  step.num_ranks.assign(kinds->ranks.size(), 1);
  const std::vector<int32_t> like = like_and_alone(*kinds, machine_);
  std::optional<verify::FoldedRanks> folded;
  if (!like.empty()) folded = verify::fold_ranks(*kinds);
  if (folded) {
    std::vector<plan::RankPlan> firsts;
    for (size_t p = 0; p < like.size(); ++p)
      if (like[p] < 0) firsts.push_back(std::move(kinds->ranks[p]));
    kinds->ranks = std::move(firsts);
    step.num_ranks = folded->num_ranks;
  }
  PIPER_ASSIGN(const verify::Matching matching, verify::match(folded ? folded->bundle : *kinds));
  step.kinds = std::move(kinds);
  if (far_ahead) step.prices = std::make_unique<FarAhead>(*step.kinds, machine_, 1, times_);
  else step.prices = std::make_unique<timeline::Priced>(*step.kinds, machine_, 1, times_);
  step.timeline = timeline::play(*step.kinds, matching, *step.prices);
  return step;
}

Result<Cost> Pricer::price(const std::string& text) const {
  Compiled compiled = compile(text);
  if (compiled.compilation == nullptr) return Status::failure("", compiled.why_not);
  Cost cost;
  for (const plan::RankPlan& plan : compiled.bundle().ranks)
    cost.instructions += static_cast<int64_t>(plan.instructions.size());
  for (const plan::RankSummary& rank : compiled.bundle().manifest.ranks)
    cost.peak_bytes = std::max(cost.peak_bytes, rank.peak_bytes);
  PIPER_ASSIGN(const PlayedStep step, play(std::move(compiled)));
  cost.step_us = step.timeline.step;
  const std::vector<timeline::RankTime> times = timeline::rank_times(*step.kinds, step.timeline);
  const plan::Manifest& manifest = step.kinds->manifest;
  double ranks = 0;
  for (size_t p = 0; p < times.size(); ++p) {
    const auto number = static_cast<double>(step.num_ranks[p]);
    ranks += number;
    cost.idle += number * times[p].waiting;
    cost.exposed += number * times[p].communication;
    cost.peak_of_kind.push_back(manifest.ranks[static_cast<size_t>(step.kinds->ranks[p].rank)].peak_bytes);
  }
  if (cost.step_us <= 0) return cost;
  cost.idle /= ranks * cost.step_us;
  cost.exposed /= ranks * cost.step_us;
  const double seconds = cost.step_us / 1e6;
  cost.tokens_per_s = static_cast<double>(manifest.batch * plan::tokens_of_sample(manifest)) / seconds;
  const auto type = static_cast<size_t>(step.prices->product_type());
  const double own = machine_.flops[type];
  const double peak = own > 0 ? own : machine_.flops[static_cast<size_t>(DType::kF32)];
  cost.mfu = manifest.model_flops / (seconds * peak * manifest.world_size);
  return cost;
}

}  // namespace piper::search
