#include "schemas/verify/verify.h"

#include <vector>

#include "schemas/base/parallel.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/verify/check_programs.h"
#include "schemas/verify/contents_flow.h"
#include "schemas/verify/deadlock.h"
#include "schemas/verify/match.h"
#include "schemas/verify/program_bytes.h"
#include "schemas/verify/races.h"
#include "schemas/verify/seams.h"

namespace piper::verify {

Result<VerifyReport> verify(const plan::Bundle& bundle) {
  VerifyReport report;
  for (const auto& program : bundle.programs) {
    PIPER_RETURN_IF_ERROR(check_program(program));
    PIPER_RETURN_IF_ERROR(check_program_bytes(program));
  }
  PIPER_ASSIGN(const auto matching, match(bundle));
  if (auto in_order = check_deadlock(bundle, matching, Level::kIssueOrder); !in_order.ok()) {
    // A cycle at a lower level is the stronger statement, and usually the shorter story.
    PIPER_RETURN_IF_ERROR(check_deadlock(bundle, matching, Level::kStreams));
    PIPER_RETURN_IF_ERROR(check_deadlock(bundle, matching, Level::kCommunication));
    return in_order;
  }
  const size_t ranks = bundle.ranks.size();
  report.ranks = static_cast<int64_t>(ranks);
  report.messages = matching.num_messages;
  report.collectives = matching.num_collectives;
  report.complete = report.ranks == bundle.manifest.world_size;
  // Races rank by rank, beside them the walk through all ranks' contents. Of several refutations the first in this
  // order is told. Who a rank's peers are is nothing to its races: ranks that do the same work share the answer.
  const std::vector<int32_t> like = plan::like_ranks(bundle);
  std::vector<Status> races(ranks);
  std::vector<int64_t> accesses(ranks, 0);
  Status contents;
  parallel_for(ranks + 1, [&](size_t i) {
    if (i == 0) {
      if (report.complete) contents = check_contents(bundle, matching);
    } else if (like[i - 1] < 0) {
      races[i - 1] = check_races(bundle, bundle.ranks[i - 1], accesses[i - 1]);
    }
  });
  for (size_t i = 0; i < ranks; ++i) {
    PIPER_RETURN_IF_ERROR(std::move(races[i]));
    report.accesses += accesses[like[i] < 0 ? i : static_cast<size_t>(like[i])];
    report.instructions += static_cast<int64_t>(bundle.ranks[i].instructions.size());
  }
  PIPER_RETURN_IF_ERROR(std::move(contents));
  if (bundle.manifest.evaluates) PIPER_RETURN_IF_ERROR(check_reads_only(bundle));
  for (const plan::Bundle& evaluation : bundle.evaluation) {
    auto proved = verify(evaluation);
    if (!proved.ok()) return proved.take_status().with_context("the evaluation");
    PIPER_RETURN_IF_ERROR(check_seams(bundle, evaluation));
  }
  return report;
}

}  // namespace piper::verify
