// Puts the declarations of a rank plan (buffers, argument lists, events, streams, channels, communicators) into the order of
// their names, numbers compared as numbers. What a strategy change does not touch keeps its line: a small change gives a small diff.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

// For each kind of declaration the indices that one rank's had before, in the order of the names: often another rank's too.
struct DeclarationOrders {
  std::vector<int32_t> buffers, arguments, events, streams, channels, communicators;
};

// Every index in the plan is renumbered; nothing else changes. `guess` only saves time; it becomes this rank's.
void sort_declarations(plan::RankPlan& plan, DeclarationOrders& guess);

}  // namespace piper::emit
