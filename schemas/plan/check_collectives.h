// What the ranges of a collective must satisfy beyond lying in some buffer: the reader refuses a plan
// that breaks it, because the runtime would write outside of the parts.
#pragma once

#include <string>

#include "schemas/plan/plan.h"

namespace piper::plan {

// What is wrong with the ranges, or "". Buffers and communicators are resolved, counts and bytes at
// least 0, and the plan's rank is a member.
std::string misfit(const RankPlan& plan, const AllReduce& reduce);
std::string misfit(const RankPlan& plan, const ReduceScatter& reduce);
std::string misfit(const RankPlan& plan, const AllGather& gather);
std::string misfit(const RankPlan& plan, const AllToAll& exchange);

}  // namespace piper::plan
