#include "compiler/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <sstream>

#include "compiler/search/model_limits.h"
#include "compiler/search/neighbours.h"
#include "compiler/search/search_texts.h"
#include "compiler/search/space.h"
#include "compiler/search/write_found.h"
#include "compiler/search/write_strategy.h"
#include "compiler/tune/tune.h"
#include "schemas/base/byte_text.h"
#include "schemas/base/check.h"
#include "schemas/base/parallel.h"
#include "schemas/plan/file_bytes.h"

namespace piper::search {
namespace {

constexpr size_t kTuned = 1;  // of the best
// Tuning compiles and plays a strategy for each of its tries: so many instructions in all.
constexpr int64_t kTunedInstructions = 3'000'000;

int32_t ranks_of(const SearchOptions& options) {
  return options.ranks > 0 ? options.ranks : options.nodes * options.compile.machine->ranks_per_node;
}

// Where no file says otherwise.
std::string plain_base(const SearchOptions& options) {
  const int32_t ranks = ranks_of(options);
  return fmt::format(
      "piper: 1\nmodel: {{batch: {}}}\noptimizer: {{adamw: {{lr: 3.0e-4}}}}\n{}", ranks,
      options.compile.target.device == plan::DeviceKind::kCuda ? "precision: {compute: bf16, master: f32}\n" : "");
}

Result<BaseStrategy> base_of(const SearchOptions& options, diag::Diagnostics& diags) {
  if (options.compile.strategy.empty())
    return read_base("the plain strategy", plain_base(options), options.compile.overrides, diags);
  const auto file = plan::map_file(options.compile.strategy);
  if (!file.ok()) return diags.error("P0101").help("check the path given to --strategy") << file.error().message;
  return read_base(options.compile.strategy, std::string(file->text()), options.compile.overrides, diags);
}

// What the strategy says of sums of gradients between replicas.
SumSettings settings_of_sums(Pricer& pricer, const BaseStrategy& base, int64_t samples) {
  SumSettings settings;
  const Compiled whole = pricer.probe(strategy_of(Point(), base, {}), samples);
  if (whole.compilation == nullptr) return settings;
  const strategy::Strategy& strategy = whole.compilation->strategy;
  if (strategy.precision && strategy.precision->reduce)
    settings.bytes = static_cast<double>(dtype_bytes(*strategy.precision->reduce));
  for (const strategy::StreamConfig& stream : strategy.streams)
    if (stream.max_ctas > 0)
      settings.max_ctas = std::min(settings.max_ctas > 0 ? settings.max_ctas : stream.max_ctas, stream.max_ctas);
  return settings;
}

class Search {
 public:
  Search(const SearchOptions& options, diag::Diagnostics& diags) : options_(options), diags_(diags) {}

  Status run() {
    PIPER_ASSIGN(found_.base, base_of(options_, diags_));
    SpaceLimits space;
    for (const std::string& text : options_.fixed) PIPER_RETURN_IF_ERROR(fix(text, space.fixed));
    if (const auto capacity = space.fixed.find(kCapacity); capacity != space.fixed.end())
      found_.base.capacity = capacity->second;
    plan::KernelTimes times;
    if (!options_.kernel_times.empty()) {
      PIPER_ASSIGN(times, plan::read_kernel_times(options_.kernel_times));
    }
    PIPER_ASSIGN(auto model, frontend::open_model(options_.compile.model, options_.compile.route, diags_));
    const int64_t only = model->fixed_batch(),
                  samples = only > 0 ? only : std::max<int64_t>(1, model->declared_min_batch());
    driver::CompileOptions compile = options_.compile;
    if (compile.strategy.empty()) compile.strategy = "plain.yaml";
    compile.overrides.clear();  // the base's text has them
    const timeline::Machine& machine = *options_.compile.machine;
    pricer_ = std::make_unique<Pricer>(compile, std::shared_ptr<frontend::ModelFile>(std::move(model)), machine,
                                       std::move(times));
    found_.memory_limit =
        options_.compile.memory_limit > 0 ? options_.compile.memory_limit : static_cast<int64_t>(machine.memory_bytes);
    space.ranks = ranks_of(options_);
    space.ranks_of_node = std::min(space.ranks, machine.ranks_per_node);
    if (space.ranks > space.ranks_of_node) found_.base.ranks_of_node = space.ranks_of_node;
    space.batch = found_.base.batch;
    space.samples = std::max<int64_t>(0, only);
    PIPER_ASSIGN(const ModelLimits limits,
                 limits_of(*pricer_, found_.base, most_stages_on(space.ranks), samples, &diags_));
    found_.experts = limits.expert_globs;
    if (!found_.base.capacity.empty() && limits.experts == 0)
      return diags_.error("P0272").help("leave --fix capacity out")
             << "--fix capacity=" << found_.base.capacity << " bounds the rows of experts in the grouped form, which "
             << "this model does not have";
    space.experts = limits.experts;
    space.most_stages = limits.most_stages;
    found_.points = points_of(space);
    if (found_.points.empty()) {
      PIPER_RETURN_IF_ERROR(check_fixed(space));
      return diags_.error("P0271").help("take another batch, another number of ranks, or fix less")
             << "a batch of " << space.batch << " on " << space.ranks << " ranks leaves no strategy to try";
    }
    probes_ = std::make_unique<StageProbes>(*pricer_, found_.base, found_.experts, samples, only > 0);
    bounds_ = std::make_unique<Bounds>(*probes_, pricer_->machine(), space.batch,
                                       settings_of_sums(*pricer_, found_.base, samples), limits.most_stages);
    ExploreOptions explored;
    explored.memory_limit = found_.memory_limit;
    explored.worth = options_.worth;
    explored.keep = options_.keep;
    explored.stop = options_.stop;
    explored.progress = options_.progress;
    found_.explored =
        explore(found_.points, *pricer_, *bounds_, [&](const Point& point) { return text_of(point); }, explored);
    constexpr int64_t kForSettings = 1;  // settings_of_sums
    found_.compiled =
        limits.compiled + kForSettings + probes_->compiled() + static_cast<int64_t>(found_.explored.priced);
    return {};
  }

  std::string text_of(const Point& point, const std::string& head = "") const {
    return strategy_of(point, found_.base, found_.experts, head);
  }

  Status nothing_fits() {
    auto error = diags_.error("P0271");
    error << nearest_text(found_);
    error.help(found_.explored.complete
                   ? "use more ranks, a smaller batch or a shorter sequence, or set a larger --memory-limit"
                   : "give it more time: a larger --budget, or none; --fix leaves less to look at");
    return error;
  }

  const Searched& found() const { return found_; }
  Pricer& pricer() { return *pricer_; }
  Bounds& bounds() { return *bounds_; }

 private:
  const SearchOptions& options_;
  diag::Diagnostics& diags_;
  Searched found_;  // outlives what is made ahead from its base
  std::unique_ptr<Pricer> pricer_;
  std::unique_ptr<StageProbes> probes_;
  std::unique_ptr<Bounds> bounds_;
};

Result<Tuned> tuned(const SearchOptions& options, size_t place, const Found& one, const std::string& path,
                    diag::Diagnostics& diags) {
  const int64_t candidates =
      std::min(options.candidates, kTunedInstructions / std::max<int64_t>(1, one.cost.instructions));
  if (place >= kTuned || candidates <= 1 || (options.stop && options.stop())) return Tuned();
  const std::string name = fmt::format("{:02}.tuned.yaml", place + 1);
  tune::TuneOptions tuning;
  tuning.compile = options.compile;
  tuning.compile.overrides.clear();  // the strategy has them
  tuning.compile.strategy = path;
  tuning.output = options.directory + "/" + name;
  tuning.kernel_times = options.kernel_times;
  tuning.candidates = candidates;
  tuning.stop = options.stop;
  std::ostringstream said;
  PIPER_RETURN_IF_ERROR(tune::tune(tuning, diags, said));
  return Tuned{name, said.str()};
}

}  // namespace

Status search(const SearchOptions& options, diag::Diagnostics& diags, std::ostream& out) {
  const KeptHelpers helpers(loop_threads() - 1);
  Search search(options, diags);
  PIPER_RETURN_IF_ERROR(search.run());
  const Searched& found = search.found();
  if (found.explored.fit.empty()) return search.nothing_fits();
  const auto text_of = [&](const Point& point, const std::string& head) { return search.text_of(point, head); };
  const std::vector<Neighbour> neighbours = price_neighbours(
      found.explored.fit.front(), found, search.pricer(), search.bounds(),
      [&](const Point& point) { return text_of(point, ""); }, options.stop);
  const auto prove = [&](const std::string& text) { return search.pricer().prove(text, diags); };
  const auto tune_one = [&](size_t place, const Found& one, const std::string& path) {
    return tuned(options, place, one, path, diags);
  };
  return write_found(options, found, neighbours, {text_of, prove, tune_one}, out);
}

Status fits(const SearchOptions& options, diag::Diagnostics& diags, std::ostream& out) {
  const KeptHelpers helpers(loop_threads() - 1);
  SearchOptions one = options;
  one.keep = 1;
  Search search(one, diags);
  PIPER_RETURN_IF_ERROR(search.run());
  const Searched& found = search.found();
  if (found.explored.fit.empty()) return search.nothing_fits();
  const Found& best = found.explored.fit.front();
  out << fmt::format("fits on {} {}: {}; {} of {} per rank, {} for a step of {} samples\n", best.point.ranks(),
                     best.point.ranks() == 1 ? "rank" : "ranks", describe(best.point),
                     human_bytes(best.cost.peak_bytes), human_bytes(found.memory_limit), time_text(best.cost.step_us),
                     found.base.batch);
  return {};
}

}  // namespace piper::search
