// The numbered rules that verify() checks on a model graph; a message cites the rule's number.
// Used by verify_graph.cc, and by tests that break one rule each. It holds no other declaration.
#pragma once

namespace piper::ir {

inline constexpr const char* kRuleOperands =
    "P0403";  // G1: every operand, output and the loss is a value that exists; only optional operands are absent
inline constexpr const char* kRuleOrder = "P0404";  // G2: an op is after the producers of its operands
inline constexpr const char* kRuleTypes = "P0405";  // G3: result types are what inference gives
inline constexpr const char* kRuleNames = "P0406";  // G4: names of values are unique and not empty
inline constexpr const char* kRuleLinks =
    "P0407";  // G5: values and their producers or list entries point at each other
inline constexpr const char* kRuleData =
    "P0408";  // G6: data of a constant, parameter or buffer has the bytes of its type
inline constexpr const char* kRuleLoss =
    "P0409";  // G7: the loss is a floating scalar, a number of dropped rows an i64 scalar
inline constexpr const char* kRulePhases =
    "P0410";  // G8: count ops read count ops alone; forward never reads backward; step_sum is a count op
inline constexpr const char* kRuleGradients =
    "P0411";  // G9: accumulate_grad adds a gradient of the type of a trained parameter
inline constexpr const char* kRuleExtents = "P0412";  // G10: extents are not negative

}  // namespace piper::ir
