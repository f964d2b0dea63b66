// Ranks that do the same work on other data: replicas, mostly. Their plans share the storage of what they do, and in a
// bundle's text only the first one spells it out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::plan {

// Whether `plan` does what `first` does: streams, events, buffers, arguments and instructions are shared, except
// argument lists that differ in where in a persistent buffer something lies, and so are the arena's size and the names
// of channels and communicators and the sizes of the latter.
bool same_work(const RankPlan& plan, const RankPlan& first);
// For plans that share arguments: the lists of which one has its own and which differ, in ascending order.
std::vector<size_t> own_lists(const RankPlan& plan, const RankPlan& first);
// Why a plan that claims to do what `first` does cannot; "" where it can. Does not look at the shared storage.
std::string why_other_work(const RankPlan& plan, const RankPlan& first);
// Whether `plan` keeps the same parts of tensors in the same places as `first` does, and saves none of them.
bool places_like(const RankPlan& plan, const RankPlan& first);
// [index into Bundle::ranks] -> the index of the first plan that does the same work, or -1 where that is its own.
std::vector<int32_t> like_ranks(const Bundle& bundle);

}  // namespace piper::plan
