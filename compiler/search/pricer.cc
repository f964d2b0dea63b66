#include "compiler/search/pricer.h"

#include <algorithm>
#include <utility>

#include "compiler/driver/run_pipeline.h"
#include "compiler/search/kept_bindings.h"
#include "schemas/plan/tokens_of_sample.h"
#include "schemas/timeline/assess.h"
#include "schemas/timeline/priced.h"

namespace piper::search {
namespace {

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

Compiled Pricer::compile(const std::string& text) const {
  driver::CompileOptions options = options_;
  options.reference = false;
  return made(options, text, nullptr);
}

Compiled Pricer::probe(const std::string& text, int64_t batch, diag::Diagnostics* diags,
                       const std::vector<std::string>& overrides) const {
  driver::CompileOptions options = options_;
  options.reference = false;
  options.packs = false;
  options.overrides = overrides;
  options.overrides.push_back("model.batch=" + std::to_string(batch));
  return made(options, text, diags);
}

Status Pricer::prove(const std::string& text, diag::Diagnostics& diags) const {
  const Compiled compiled = made(options_, text, &diags);
  if (compiled.compilation == nullptr) return Status::failure("", compiled.why_not);
  driver::prove(compiled.compilation->emitted.bundle);
  return {};
}

Compiled Pricer::made(const driver::CompileOptions& options, const std::string& text, diag::Diagnostics* diags) const {
  Compiled made;
  auto compilation = std::make_unique<driver::Compilation>();
  compilation->model = model_;
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
  PIPER_ASSIGN(timeline::Kinds kinds, timeline::kinds_on(compiled.bundle(), machine_));
  compiled.compilation.reset();
  step.kinds = std::make_unique<const timeline::Kinds>(std::move(kinds));
  if (far_ahead) step.prices = std::make_unique<FarAhead>(*step.kinds, machine_, 1, times_);
  else step.prices = std::make_unique<timeline::Priced>(*step.kinds, machine_, 1, times_);
  step.timeline = timeline::simulate_on(*step.kinds, *step.prices);
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
  const std::vector<timeline::RankTime> times = timeline::rank_times(step.kinds->bundle, step.timeline);
  const plan::Manifest& manifest = step.kinds->bundle.manifest;
  double ranks = 0;
  for (size_t p = 0; p < times.size(); ++p) {
    const auto number = static_cast<double>(step.kinds->num_ranks[p]);
    ranks += number;
    cost.waiting += number * times[p].waiting;
    cost.exposed += number * times[p].communication;
    cost.peak_of_kind.push_back(manifest.ranks[static_cast<size_t>(step.kinds->bundle.ranks[p].rank)].peak_bytes);
  }
  if (cost.step_us <= 0) return cost;
  cost.waiting /= ranks * cost.step_us;
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
