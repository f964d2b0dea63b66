#include "compiler/tune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <tuple>

#include "compiler/frontend/model_file.h"
#include "compiler/strategy/overridden_text.h"
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
  Search(Judge& judge, Trial start, const TuneOptions& options)
      : judge_(judge), best_(std::move(start)), options_(options), least_us_(kLeastGain * best_.step_us) {}

  Status run() {
    PIPER_RETURN_IF_ERROR(fit());
    for (int round = 0; round < kMostRounds; ++round) {
      const size_t before = changes_.size();
      PIPER_RETURN_IF_ERROR(best_of(kPasses));
      for (const Kind& kind : {kBuckets, kPrefetch, kRecomputation}) PIPER_RETURN_IF_ERROR(while_better(kind));
      // After the others: of a long step it takes all tries that are left.
      PIPER_RETURN_IF_ERROR(climb());
      if (changes_.size() == before) break;
    }
    return {};
  }

  const Trial& best() const { return best_; }
  const std::vector<std::string>& changes() const { return changes_; }
  // A line for each kind of which the last tries were no better: the best of them, and what it lacks.
  std::vector<std::string> why_no_more() const {
    std::vector<std::string> lines;
    for (const auto& [kind, of] : failed_) lines.push_back(of.described(kind, best_));
    return lines;
  }

 private:
  struct Kind {
    const char* name;
    std::vector<Proposal> (*proposals)(const Trial&);
  };
  static constexpr Kind kPasses = {"order of passes", moved_passes};
  static constexpr Kind kBuckets = {"bucket_size", buckets};
  static constexpr Kind kPrefetch = {"prefetch", prefetches};
  static constexpr Kind kRecomputation = {"recomputation", recomputations};
  static constexpr Kind kSharding = {"sharding", shardings};
  static constexpr Kind kFewer = {"fewer forwards in flight", fewer_in_flight};

  // Tries of a kind that were not better than the best.
  struct Failed {
    std::string what;
    double step_us = 0;
    int64_t peak_bytes = 0, excess_bytes = 0, tries = 0;

    std::string described(const char* kind, const Trial& best) const {
      std::string text = fmt::format("{}: {} {}, none better; the best, {}: {} ms a step ({:+.2g} %), {}", kind, tries,
                                     tries == 1 ? "try" : "tries", what, milliseconds(step_us),
                                     100 * (step_us / best.step_us - 1), human_bytes(peak_bytes));
      if (excess_bytes > 0) text += fmt::format(", {} over the limit", human_bytes(peak_bytes - best.limit_bytes));
      return text;
    }
  };

  bool better(const Trial& a, const Trial& b) const {
    if (a.excess_bytes != b.excess_bytes) return a.excess_bytes < b.excess_bytes;
    return a.step_us < b.step_us - least_us_;
  }
  bool has_budget() const { return judge_.compiled() < options_.candidates && !(options_.stop && options_.stop()); }

  // Until everything fits: of all that needs less memory, the change that costs the least time for each byte that it
  // brings the ranks closer to the limit. What it brings below the limit counts for nothing.
  Status fit() {
    while (best_.excess_bytes > 0) {
      std::optional<Trial> found;
      std::string what;
      const auto cost = [&](const Trial& trial) {
        return (trial.step_us - best_.step_us) / static_cast<double>(best_.excess_bytes - trial.excess_bytes);
      };
      for (const Kind& kind : {kRecomputation, kSharding, kFewer})
        PIPER_RETURN_IF_ERROR(try_all(kind, [&](Trial&& trial, const Proposal& proposal) {
          if (trial.excess_bytes >= best_.excess_bytes || (found && cost(trial) >= cost(*found))) return false;
          found = std::move(trial);
          what = proposal.what;
          return true;
        }));
      if (!found) break;
      PIPER_RETURN_IF_ERROR(keep(std::move(*found), what));
    }
    return {};
  }
  // Keeps the best change of a kind, if it is better than what there is.
  Status best_of(const Kind& kind) {
    std::optional<Trial> found;
    std::string what;
    PIPER_RETURN_IF_ERROR(try_all(kind, [&](Trial&& trial, const Proposal& proposal) {
      if (!better(trial, found ? *found : best_)) return false;
      found = std::move(trial);
      what = proposal.what;
      return true;
    }));
    return found ? keep(std::move(*found), what) : Status();
  }
  Status while_better(const Kind& kind) {
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

  // Tries what a kind proposes while there is budget. `take` says whether it took the trial.
  template <class Take>
  Status try_all(const Kind& kind, const Take& take) {
    std::optional<Failed> failed;
    bool taken = false;
    const auto proposals = kind.proposals(best_);
    for (const Proposal& proposal : proposals) {
      if (!has_budget()) break;
      auto trial = tried(proposal, kGainToCome);
      if (!trial) continue;
      const Failed now{proposal.what, trial->step_us, trial->peak_bytes, trial->excess_bytes, 1};
      if (take(std::move(*trial), proposal)) {
        taken = true;
      } else if (!failed || std::tie(now.excess_bytes, now.step_us) < std::tie(failed->excess_bytes, failed->step_us)) {
        const int64_t tries = failed ? failed->tries : 0;
        failed = now;
        failed->tries += tries;
      } else {
        ++failed->tries;
      }
    }
    if (taken) failed_.erase(kind.name);
    else if (failed) failed_.insert_or_assign(kind.name, std::move(*failed));
    return {};
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
  const TuneOptions& options_;
  double least_us_;
  std::vector<std::string> changes_;
  std::map<const char*, Failed, std::less<std::string_view>> failed_;  // by kind
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
  for (const std::string& line : search.why_no_more()) text += "  " + line + "\n";
  text += "tuned: " + costs(best.step_us, best.peak_bytes) +
          fmt::format(" ({:+.1f} % against the start)\n", 100 * (best.step_us / start.step_us - 1)) +
          fmt::format(
              "bounds of any order: {} ms for its busiest processor, {} ms for its busiest link; with links of no "
              "cost the start takes {} ms\n",
              milliseconds(least.processor_us), milliseconds(least.link_us), milliseconds(start.free_links_us));
  return text + options.output + ": written, its plans are proved; " + std::to_string(judge.compiled()) +
         " strategies were compiled\n";
}

// Whoever compiles what is written does not know the command line: from here on, the text says what it says. Errors of
// the start have their places in the user's own text, so that one is compiled first.
Status write_overrides(const driver::CompileOptions& options, Judge& judge, Trial& start) {
  if (options.overrides.empty()) return {};
  diag::Diagnostics unheard;
  PIPER_ASSIGN(const auto written, strategy::overridden_text(options.strategy, start.text, options.overrides, unheard));
  if (!written) return {};
  judge.leave_overrides_out();
  auto again = judge.judge(*written);
  PIPER_CHECK(again && again->step_us == start.step_us && again->peak_bytes == start.peak_bytes,
              "with --set in its text it is another strategy:\n", *written);
  start = std::move(*again);
  return {};
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
  PIPER_RETURN_IF_ERROR(write_overrides(options.compile, judge, first));
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
  Search search(judge, std::move(first), options);
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
