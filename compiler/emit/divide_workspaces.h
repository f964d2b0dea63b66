// Workspaces of runs. A stream's runs follow each other, so one workspace, as large as the largest asks for, serves
// them all; but its bytes are then taken from the first run to the last, also while a run that needs few of them, and
// much else, is on. Where a rank has a head beside other layers that is up to 6 % of what is alive.
//
// So where the bytes alive at the fullest moment fall by more than 2 %, each run has a workspace of its own, alive
// while it runs; elsewhere all stays as it is, since a workspace for each run is a line more in the plan and bytes that
// are handed from one stream to another are events more.
#pragma once

#include "compiler/emit/trace.h"
#include "schemas/plan/plan.h"

namespace piper::emit {

// Before any buffer has an offset.
void divide_workspaces(plan::RankPlan& plan, Trace& trace);

}  // namespace piper::emit
