// The numbered rules of the DAG, which verify(Module) checks; a message cites the rule's number. Used by verify_dag.cc,
// and by tests that break one rule each.
#pragma once

namespace piper::ir {

inline constexpr const char* kRuleNodes =
    "P0450";  // N1: whatever a node names exists: group, stream, chunk and microbatch, value, bucket, teams, scalar
inline constexpr const char* kRulePasses =
    "P0451";  // N2: a pass of a chunk on a microbatch appears once, on the group that runs it
inline constexpr const char* kRuleCollectives =
    "P0452";  // N3: a collective's teams partition its group, and its element type is its operand's
inline constexpr const char* kRuleTransfers = "P0453";  // N4: a message goes to another group than the node's
inline constexpr const char* kRuleEdges = "P0454";      // N5: an edge joins two nodes that exist
inline constexpr const char* kRuleExtension = "P0455";  // N6: the order is a linear extension: every node once, after
                                                        // all that have an edge to it
inline constexpr const char* kRuleReductions =
    "P0456";  // N7: gradients of a bucket that several sum up are reduced before its update

}  // namespace piper::ir
