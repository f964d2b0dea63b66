// Puts the declarations of a rank plan (buffers, argument lists, events, streams, channels, communicators) into the
// order of their names, numbers compared as numbers. What a strategy change does not touch keeps its line: a small
// change gives a small diff.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

struct SortedDeclarations {
  std::vector<int32_t> buffers, arguments;  // [index before] its place afterwards
};
// Every index in the plan is renumbered; nothing else changes.
SortedDeclarations sort_declarations(plan::RankPlan& plan);

}  // namespace piper::emit
