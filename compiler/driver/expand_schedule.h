// Turns a `schedule` into directives: one `order` per rank, and `place` and `replicate` where the file places none of
// the stages. Its `split`, a number of microbatches, is set earlier. --expand prints all of them.
#pragma once

#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/directives/resolution.h"
#include "compiler/strategy/families.h"
#include "compiler/strategy/strategy.h"

namespace piper::driver {

struct ExpandedSchedule {
  std::vector<strategy::Directive> placement;    // place
  std::vector<strategy::Directive> replication;  // replicate
  std::vector<strategy::Directive> orders;
  strategy::ScheduleTable table;
};
// Sets the step's number of microbatches to the schedule's. Error P0206: a family without one.
Status number_microbatches(const strategy::Schedule& schedule, ir::Step& step, diag::Diagnostics& diags);
// `draft` has the regions, whose tags tell the stages, and what the user's own directives claim: the ranks are read
// from there. `table`: what `schedule: {csv: ...}` named, or nullptr where a family is to be expanded. Errors: those of
// schedule_ranks.h, P0230, P0231, P0233 a table of another number of stages.
Result<ExpandedSchedule> expand_schedule(const strategy::Schedule& schedule, const directives::Resolution& draft,
                                         const strategy::ScheduleTable* table, diag::Diagnostics& diags);
// Reads the table that `schedule: {csv: ...}` names, from `folder` (the strategy's own). Errors: P0101, P0233.
Result<strategy::ScheduleTable> read_schedule_table(const strategy::Schedule& schedule, const std::string& folder,
                                                    diag::Diagnostics& diags);
// The number of microbatches of a table: one more than the largest in it.
int32_t microbatches_of(const strategy::ScheduleTable& table);

}  // namespace piper::driver
