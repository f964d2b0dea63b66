#include "compiler/tune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "compiler/frontend/model_file.h"
#include "compiler/tune/proposals.h"
#include "schemas/base/byte_text.h"
#include "schemas/base/check.h"
#include "schemas/base/parallel.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/timeline/profile_times.h"

namespace piper::tune {
namespace {

constexpr double kLeastGain = 1e-3;  // of the start's step: what gains less is not worth a line
constexpr int kMostRounds = 4;
// Stands for the comment of a change of which the gain is not known yet; no strategy holds this character.
const std::string kGainToCome = "\x01";

std::string milliseconds(double us) { return fmt::format("{:.4g}", us / 1000); }
class Search {
 public:
  Search(Judge& judge, Trial start, int64_t candidates)
      : judge_(judge), best_(std::move(start)), candidates_(candidates), least_us_(kLeastGain * best_.step_us) {}

  Status run() {
    for (int round = 0; round < kMostRounds; ++round) {
      const size_t before = changes_.size();
      PIPER_RETURN_IF_ERROR(best_of(moved_passes));
      for (auto* const kind : {buckets, prefetches, recomputations}) PIPER_RETURN_IF_ERROR(while_better(kind));
      // After the others: of a long step it takes all tries that are left.
      PIPER_RETURN_IF_ERROR(climb());
      if (changes_.size() == before) break;
    }
    return {};
  }

  const Trial& best() const { return best_; }
  const std::vector<std::string>& changes() const { return changes_; }

 private:
  using Kind = std::vector<Proposal> (*)(const Trial&);

  bool better(const Trial& a, const Trial& b) const {
    if (a.excess_bytes != b.excess_bytes) return a.excess_bytes < b.excess_bytes;
    return a.step_us < b.step_us - least_us_;
  }
  bool has_budget() const { return judge_.compiled() < candidates_; }

  // Keeps the best change of a kind, if it is better than what there is.
  Status best_of(Kind kind) {
    std::optional<Trial> found;
    const Proposal* of = nullptr;
    const auto proposals = kind(best_);
    for (const Proposal& proposal : proposals) {
      if (!has_budget()) break;
      auto trial = tried(proposal, kGainToCome);
      if (!trial || !better(*trial, found ? *found : best_)) continue;
      found = std::move(trial);
      of = &proposal;
    }
    return found ? keep(std::move(*found), of->what) : Status();
  }
  Status while_better(Kind kind) {
    for (size_t before = changes_.size() + 1; before != changes_.size();) {
      before = changes_.size();
      PIPER_RETURN_IF_ERROR(best_of(kind));
    }
    return {};
  }
  // Change after change between neighbours, as one change of the file.
  Status climb() {
    std::optional<Trial> at;
    int64_t moves = 0;
    auto proposals = neighbours(best_);
    for (size_t next = 0, since = 0; since < proposals.size() && has_budget();
         next = (next + 1) % proposals.size(), ++since) {
      next = std::min(next, proposals.size() - 1);
      auto trial = tried(proposals[next], moves == 0 ? kGainToCome : "");
      if (!trial || !better(*trial, at ? *at : best_)) continue;
      at = std::move(trial);
      proposals = neighbours(*at);
      since = 0;
      ++moves;
    }
    if (!at) return {};
    return keep(std::move(*at), fmt::format("{} {} of neighbouring passes", moves, moves == 1 ? "move" : "moves"));
  }

  std::optional<Trial> tried(const Proposal& proposal, const std::string& comment) {
    const auto text = proposal.edit(comment);
    return text.ok() ? judge_.judge(*text) : std::nullopt;
  }

  // Proves it, and writes into its text what it gained.
  Status keep(Trial trial, const std::string& what) {
    const std::string change =
        fmt::format("{}: {} -> {} ms a step, {} -> {}", what, milliseconds(best_.step_us), milliseconds(trial.step_us),
                    human_bytes(best_.peak_bytes), human_bytes(trial.peak_bytes));
    const size_t at = trial.text.find(kGainToCome);
    PIPER_CHECK(at != std::string::npos, "a change has no comment: ", what);
    trial.text.replace(at, kGainToCome.size(), "tuned: " + change);
    PIPER_ASSIGN(const bool same, judge_.prove(trial));
    PIPER_CHECK(same, "a comment changed what a strategy costs: ", change);
    best_ = std::move(trial);
    changes_.push_back(change);
    return {};
  }

  Judge& judge_;
  Trial best_;
  int64_t candidates_;
  double least_us_;
  std::vector<std::string> changes_;
};

struct Start {
  double step_us = 0, free_links_us = 0;
  int64_t peak_bytes = 0;
  size_t measured_calls = 0, distinct_calls = 0;
};

std::string told(const TuneOptions& options, const Judge& judge, const Search& search, const Start& start) {
  const Trial& best = search.best();
  const Judge::LeastTime least = judge.least_time(best);
  const auto costs = [](double us, int64_t bytes) { return milliseconds(us) + " ms a step, " + human_bytes(bytes); };
  std::string text = "on " + judge.machine().name + ", at most " + human_bytes(judge.limit()) + " a rank\n" +
                     "start: " + options.compile.strategy + " with " + options.compile.model + ": " +
                     costs(start.step_us, start.peak_bytes) +
                     (options.profile.empty() ? "" : ", with the times of " + options.profile) +
                     (options.kernel_times.empty() ? "" : ", with the kernel times of " + options.kernel_times) + "\n";
  if (start.measured_calls > 0)
    text += fmt::format("  {} of its {} distinct kernel calls have measured times\n", start.measured_calls,
                        start.distinct_calls);
  for (const std::string& change : search.changes()) text += "  " + change + "\n";
  if (search.changes().empty()) text += "  nothing that was tried is better\n";
  text += "tuned: " + costs(best.step_us, best.peak_bytes) +
          fmt::format(" ({:+.1f} % against the start)\n", 100 * (best.step_us / start.step_us - 1)) +
          fmt::format(
              "bounds of any order: {} ms for its busiest processor, {} ms for its busiest link; with links of no "
              "cost the start takes {} ms\n",
              milliseconds(least.processor_us), milliseconds(least.link_us), milliseconds(start.free_links_us));
  return text + options.output + ": written, its plans are proved; " + std::to_string(judge.compiled()) +
         " strategies were compiled\n";
}

}  // namespace

Status tune(const TuneOptions& options, diag::Diagnostics& diags, std::ostream& out) {
  const KeptHelpers helpers(loop_threads() - 1);
  const timeline::Machine& machine = *options.compile.machine;
  plan::KernelTimes times;
  if (!options.kernel_times.empty()) {
    PIPER_ASSIGN(times, plan::read_kernel_times(options.kernel_times));
  }
  PIPER_ASSIGN(auto model, frontend::open_model(options.compile.model, options.compile.route, diags));
  const auto given = plan::map_file(options.compile.strategy);
  if (!given.ok()) return diags.error("P0101").help("check the path given to --strategy") << given.error().message;
  const int64_t limit =
      options.compile.memory_limit > 0 ? options.compile.memory_limit : static_cast<int64_t>(machine.memory_bytes);
  Judge judge(options.compile, std::move(model), machine, std::move(times), limit);
  PIPER_ASSIGN(Trial first, judge.judge(std::string(given->text()), diags));
  if (!options.profile.empty()) {
    const plan::Bundle& bundle = first.compilation->emitted.bundle;
    PIPER_ASSIGN(const timeline::Measured measured, timeline::read_profile(bundle, options.profile));
    judge.measure(timeline::times_by_profile(bundle, measured, judge.prices(bundle)));
    auto again = judge.judge(first.text);
    PIPER_CHECK(again.has_value(), "a strategy compiled once only");
    first = std::move(*again);
  }
  const timeline::Priced prices = judge.prices(first.compilation->emitted.bundle);
  const Start start{first.step_us, judge.without_links_us(first), first.peak_bytes, prices.measured_calls(),
                    prices.distinct_calls()};
  Search search(judge, std::move(first), options.candidates);
  PIPER_RETURN_IF_ERROR(search.run());
  if (search.best().excess_bytes > 0)
    return diags.error("P0520").help("shard more, use more microbatches or more ranks")
           << "nothing that was tried needs at most " << limit << " bytes a rank; the least is "
           << search.best().peak_bytes;
  if (search.changes().empty()) PIPER_RETURN_IF_ERROR(judge.prove(search.best()).status());
  PIPER_RETURN_IF_ERROR(plan::write_file(options.output, search.best().text));
  out << told(options, judge, search, start);
  return {};
}

}  // namespace piper::tune
