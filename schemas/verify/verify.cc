#include "schemas/verify/verify.h"

#include "schemas/verify/check_programs.h"
#include "schemas/verify/contents_flow.h"
#include "schemas/verify/deadlock.h"
#include "schemas/verify/match.h"
#include "schemas/verify/races.h"

namespace piper::verify {

Result<VerifyReport> verify(const plan::Bundle& bundle) {
  VerifyReport report;
  for (const auto& program : bundle.programs) PIPER_RETURN_IF_ERROR(check_program(program));
  PIPER_ASSIGN(const auto matching, match(bundle));
  if (auto in_order = check_deadlock(bundle, matching, Level::kIssueOrder); !in_order.ok()) {
    // A cycle at a lower level is the stronger statement, and usually the shorter story.
    PIPER_RETURN_IF_ERROR(check_deadlock(bundle, matching, Level::kStreams));
    PIPER_RETURN_IF_ERROR(check_deadlock(bundle, matching, Level::kCommunication));
    return in_order;
  }
  for (const auto& plan : bundle.ranks) {
    PIPER_RETURN_IF_ERROR(check_races(bundle, plan, report.accesses));
    report.instructions += static_cast<int64_t>(plan.instructions.size());
  }
  report.ranks = static_cast<int64_t>(bundle.ranks.size());
  report.messages = matching.num_messages;
  report.collectives = matching.num_collectives;
  report.complete = report.ranks == bundle.manifest.world_size;
  if (report.complete) PIPER_RETURN_IF_ERROR(check_contents(bundle, matching));
  return report;
}

}  // namespace piper::verify
