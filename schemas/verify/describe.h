// How refutations name things. An instruction: `rank 1 instruction 7 (recv "act x m0" from rank 0, 64 bytes,
// on stream "pp:0>1"; s.yaml:9:5)`. Also used by piper-plan explain and show.
#pragma once

#include <string>

#include "schemas/plan/plan.h"

namespace piper::verify {

// The action alone: `recv "act x m0" from rank 0, 64 bytes`.
std::string describe_action(const plan::Bundle& bundle, const plan::RankPlan& plan, const plan::Action& action);
std::string describe_instruction(const plan::Bundle& bundle, const plan::RankPlan& plan, size_t instruction);
// "rank 1".
std::string describe_rank(const plan::RankPlan& plan);
// What of a tensor a placement is: "first moment", "value".
const char* describe_kind(plan::PlacementKind kind);

}  // namespace piper::verify
