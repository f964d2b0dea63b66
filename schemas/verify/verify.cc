#include "schemas/verify/verify.h"

#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "schemas/base/parallel.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/verify/check_programs.h"
#include "schemas/verify/contents_flow.h"
#include "schemas/verify/contributions.h"
#include "schemas/verify/deadlock.h"
#include "schemas/verify/fold_ranks.h"
#include "schemas/verify/match.h"
#include "schemas/verify/numbers/reference.h"
#include "schemas/verify/program_bytes.h"
#include "schemas/verify/races.h"
#include "schemas/verify/rules.h"
#include "schemas/verify/seams.h"

namespace piper::verify {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Programs {
  Layouts layouts;
  std::vector<SlotLayouts> slots;  // [program]
};
Status check_programs(const plan::Bundle& bundle, Programs& found, VerifyReport& report) {
  const Clock::time_point start = Clock::now();
  int64_t calls = 0;
  for (const auto& program : bundle.programs) {
    PIPER_RETURN_IF_ERROR(check_program(program));
    PIPER_ASSIGN(found.slots.emplace_back(), check_program_bytes(program, found.layouts));
    calls += static_cast<int64_t>(program.calls.size());
  }
  PIPER_RETURN_IF_ERROR(check_contributions(bundle.programs));
  report.parts.push_back({rules_text({Rule::kPrograms}), seconds_since(start), calls, "calls"});
  return {};
}

struct Met {
  int64_t messages = 0, collectives = 0;
};

Status check_deadlock_at_all_levels(const plan::Bundle& bundle, const Matching& matching) {
  auto in_order = check_deadlock(bundle, matching, Level::kIssueOrder);
  if (in_order.ok()) return in_order;
  // A cycle at a lower level is the stronger statement, and usually the shorter story.
  PIPER_RETURN_IF_ERROR(check_deadlock(bundle, matching, Level::kStreams));
  PIPER_RETURN_IF_ERROR(check_deadlock(bundle, matching, Level::kCommunication));
  return in_order;
}

// Rules 1 to 4, on one rank of each kind where that shows that they hold (fold_ranks.h). `seconds`: of rules 1 to 3.
Result<Met> check_meetings(const plan::Bundle& bundle, double& seconds) {
  const Clock::time_point start = Clock::now();
  if (const auto folded = fold_ranks(bundle)) {
    const auto matching = match(folded->bundle);
    seconds = seconds_since(start);
    if (matching.ok() && check_deadlock(folded->bundle, *matching, Level::kIssueOrder).ok())
      return Met{folded->num_messages, folded->num_collectives};
  }
  PIPER_ASSIGN(const auto matching, match(bundle));
  seconds = seconds_since(start);
  PIPER_RETURN_IF_ERROR(check_deadlock_at_all_levels(bundle, matching));
  return Met{matching.num_messages, matching.num_collectives};
}

Status check_order(const plan::Bundle& bundle, VerifyReport& report) {
  const Clock::time_point start = Clock::now();
  double seconds = 0;
  PIPER_ASSIGN(const Met met, check_meetings(bundle, seconds));
  report.messages = met.messages;
  report.collectives = met.collectives;
  report.parts.push_back({rules_text({Rule::kMessages, Rule::kCollectives, Rule::kEvents}), seconds,
                          report.messages + report.collectives, "messages and collectives"});
  for (const auto& plan : bundle.ranks) report.instructions += static_cast<int64_t>(plan.instructions.size());
  report.parts.push_back(
      {rules_text({Rule::kDeadlock}), seconds_since(start) - seconds, report.instructions, "instructions"});
  return {};
}

}  // namespace

Result<VerifyReport> verify(const plan::Bundle& bundle) {
  VerifyReport report;
  Programs programs;
  PIPER_RETURN_IF_ERROR(check_programs(bundle, programs, report));
  PIPER_RETURN_IF_ERROR(check_order(bundle, report));
  const size_t ranks = bundle.ranks.size();
  report.ranks = static_cast<int64_t>(ranks);
  report.complete = report.ranks == bundle.manifest.world_size;
  // Races rank by rank, beside them the walk through all ranks' contents. Of several refutations the first in this
  // order is given. Ranks that do the same work share the answer.
  const std::vector<int32_t> like = plan::like_ranks(bundle);
  std::vector<std::vector<const plan::RankPlan*>> alike(ranks);  // [the first of them]
  for (size_t i = 0; i < ranks; ++i) alike[like[i] < 0 ? i : static_cast<size_t>(like[i])].push_back(&bundle.ranks[i]);
  std::vector<Status> races(ranks);
  std::vector<int64_t> accesses(ranks, 0);
  std::vector<double> seconds(ranks + 1, 0);
  Result<FoundContents> contents = FoundContents();
  parallel_for(ranks + 1, [&](size_t i) {
    const Clock::time_point start = Clock::now();
    if (i == 0) {
      if (report.complete) contents = check_contents(bundle, programs.layouts, programs.slots);
    } else if (like[i - 1] < 0) {
      races[i - 1] = check_races(bundle, alike[i - 1], accesses[i - 1]);
    }
    seconds[i] = seconds_since(start);
  });
  for (size_t i = 0; i < ranks; ++i) {
    PIPER_RETURN_IF_ERROR(std::move(races[i]));
    report.accesses += accesses[like[i] < 0 ? i : static_cast<size_t>(like[i])];
  }
  PIPER_ASSIGN(FoundContents found, std::move(contents));
  report.replicas = found.replicas;
  if (report.complete && !bundle.manifest.evaluates) report.sum_order = sum_order(bundle, std::move(found.orders));
  const double all_races = std::accumulate(seconds.begin() + 1, seconds.end(), 0.0);
  report.parts.push_back(
      {rules_text({Rule::kRaces, Rule::kContents, Rule::kPrograms}), all_races, report.accesses, "accesses"});
  if (report.complete) {
    report.parts.push_back({rules_text({Rule::kSums, Rule::kMeaning, Rule::kUpdates, Rule::kMatrices}), seconds[0],
                            report.instructions, "instructions"});
    const Clock::time_point start = Clock::now();
    for (const plan::Reference& reference : bundle.reference) PIPER_RETURN_IF_ERROR(check_reference(reference));
    PIPER_ASSIGN(report.equality, check_equality(bundle, found.exchanges));
    report.parts.push_back({rules_text({Rule::kEquality}), seconds_since(start), report.instructions, "instructions"});
  }
  if (bundle.manifest.evaluates) PIPER_RETURN_IF_ERROR(check_reads_only(bundle));
  for (const plan::Bundle& evaluation : bundle.evaluation) {
    const Clock::time_point start = Clock::now();
    auto proved = verify(evaluation);
    if (!proved.ok()) return proved.take_status().with_context("the evaluation");
    PIPER_RETURN_IF_ERROR(check_seams(bundle, evaluation));
    report.evaluations.push_back(std::move(proved->equality));
    report.parts.push_back(
        {"all rules, of the evaluation", seconds_since(start), proved->instructions, "instructions"});
  }
  return report;
}

}  // namespace piper::verify
