// The numbered rules that verify(Module) checks beside those of its graphs (verify_graph.h); a message cites the rule's
// number. A part of a module that no pass has written yet breaks none. Used by the verify_*.cc files, and by tests that
// break one rule each. The rules of the DAG are in verify_dag.h, those of the lay-out of state in verify_state.h.
#pragma once

namespace piper::ir {

// --- the module and its variants: verify_module.cc
inline constexpr const char* kRuleStep = "P0413";      // M1: batch and microbatches are positive, the norm not negative
inline constexpr const char* kRuleVariants = "P0414";  // M2: local batches are positive, the largest first, each once
inline constexpr const char* kRuleSameChunks = "P0415";  // M3: all variants have the same chunks and tags
inline constexpr const char* kRuleChunkOfOp =
    "P0416";  // M4: where a graph is cut, every op that names a chunk names one that exists, and forward ops name one
inline constexpr const char* kRuleChunkOrder =
    "P0417";  // M5: chunk ids are a topological order: forward ops read what chunks of lower or the same id make
inline constexpr const char* kRuleChunks =
    "P0418";  // M6: names of chunks are unique, tags are in order of name, each once; a shard exists
inline constexpr const char* kRuleProvenance = "P0419";  // M7: an entry of the provenance exists, or is "none"

inline constexpr const char* kRuleGradientOf =
    "P0423";  // M8: where gradients are known, each value has none or one that exists

inline constexpr const char* kRuleRepeating =
    "P0424";  // M9: the graph that repeats forwards has the values of the variant's graph under the same ids

inline constexpr const char* kRulePrecision = "P0425";  // M10: it computes in bf16 or f16, trains and sums
                                                        // floating-point numbers, scales the loss by a positive one

// --- the distribution: verify_distribution.cc
inline constexpr const char* kRuleRows = "P0430";          // D1: there is one row per chunk
inline constexpr const char* kRuleMicrobatches = "P0431";  // D2: groups, places and repetitions of every microbatch
inline constexpr const char* kRuleGroups =
    "P0432";  // D3: a group has distinct ranks below the world size, places that divide them, and no twin; the groups
              // of a cut are disjoint and of one size, that of the parts of parameters
inline constexpr const char* kRuleGroupOfRow =
    "P0433";  // D4: every microbatch of a chunk runs on a group that exists, of equally many places; a rank shares
              // samples with the same ranks in all groups that run chunks, and in its cut
inline constexpr const char* kRuleStreams =
    "P0434";  // D5: streams have names of their own; those that a row names exist; computes put elsewhere exist
inline constexpr const char* kRuleExperts = "P0435";  // D6: expert groups are disjoint and of one size, each at one
                                                      // place, and partition the groups that run their chunks
inline constexpr const char* kRuleSizes = "P0436";    // D7: sizes of buckets and segments are not negative except
                                                    // "none", nor is a number of computes; a bound of rows is positive

// --- the schedule: verify_schedule.cc
inline constexpr const char* kRuleMembers =
    "P0440";  // S1: chunks and microbatches of a member of an order exist and ascend
inline constexpr const char* kRulePhasesOfMember = "P0441";  // S2: phases of a member ascend, and there are some
inline constexpr const char* kRuleSlots = "P0442";           // S3: orders have slots, and slots members

}  // namespace piper::ir
