// Puts the declarations of a rank plan (buffers, argument lists, events, streams, channels, communicators) into the
// order of their names, numbers compared as numbers. What a strategy change does not touch keeps its line: a small
// change gives a small diff.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

// Every index in the plan is renumbered; nothing else changes.
// [buffer] its place afterwards.
std::vector<int32_t> sort_declarations(plan::RankPlan& plan);

}  // namespace piper::emit
