// The numbered rules of the lay-out of state, which verify(Module) checks; a message cites the rule's number. Used by
// verify_state.cc, and by tests that break one rule each.
#pragma once

namespace piper::ir {

inline constexpr const char* kRuleAccumulators =
    "P0460";  // L1: chunks, group and bucket of an accumulator exist, and the bucket has it
inline constexpr const char* kRuleOffsets =
    "P0461";  // L2: accumulators of a bucket are after one another, inside its bytes
inline constexpr const char* kRuleTeams = "P0462";  // L3: a bucket's teams are of its size and partition its group
inline constexpr const char* kRuleParts =
    "P0463";  // L4: what is kept in parts has what is before it in parts: moments, gradients, parameters; parts are
              // whole elements, of teams of several, and of matrices that are updated as such each is in one part
inline constexpr const char* kRuleGathers =
    "P0464";  // L5: a reader of a bucket has an all_gather of it, whose parameters are kept in parts
inline constexpr const char* kRuleOwners =
    "P0465";  // L6: owners are ranks, one of each parameter; what is cleared is added up a microbatch at a time
inline constexpr const char* kRuleBucketTypes = "P0466";  // L7: the parameters of a bucket are of its types: of what is
                                                          // trained, and of the copies that programs read; all are
                                                          // updated as whole matrices, or none is

}  // namespace piper::ir
