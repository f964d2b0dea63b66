// What passes know of every operator from its row in ops.def, so that none of them lists operators itself. The columns:
//   types       the function of infer_*.cc that gives the result types (infer.h)
//   axes        an AxisRule
//   precision   a Takes
//   folding     the function of frontend/fold/evaluator.h that computes it on constants; `never`: it is not folded
//   derivative  PIPER_RULE(function of autodiff/rules/); PIPER_ZERO: the gradient stops, or results are bool
//               or integers; PIPER_STEP: it is zero; PIPER_NONE: never differentiated (of the backward, or removed
//               before it is made)
// A row that lacks a column does not compile; nor does a pass whose switch lacks a rule.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"

namespace piper::ir {

// How the axes of the results follow from those of the operands. axis_map.h has a case for each rule; passes that
// follow an axis through the graph ask it: the batch (analysis/track_batch), experts and their tokens
// (experts/expert_marks), rows that are computed one by one (frontend/experts/row_wise).
enum class AxisRule : uint8_t {
  kElement,    // one operand; an element of the result comes from the element at the same place
  kBroadcast,  // operands are aligned at the last axis; an element comes from those at the same place
  kReshape,    // the views, as their attributes say
  kPermute,
  kExpand,
  kSlice,
  kReduce,       // over ReduceAttrs::dims; the other axes stay
  kScan,         // an element may depend on all along DimAttrs::dim; all axes stay
  kChoose,       // picks elements along TopkAttrs::dim; the other axes stay
  kTable,        // the axes of operand 1, whose numbers name rows of operand 0, then those of a row
  kGather,       // operand 1 names a place along DimAttrs::dim for each element; the other axes stay
  kScatter,      // the same, for elements of operand 2 that are written
  kIndexSelect,  // operand 1 becomes the axis DimAttrs::dim; the other axes stay
  kIndexAdd,     // all axes stay; operand 1 names places along DimAttrs::dim
  kCat,          // all axes but DimAttrs::dim are those of every operand
  kPad,          // axes with padding do not follow
  kMatmul,       // leading axes are broadcast, the last of operand 0 and the last but one of operand 1 are summed over
  kLinear,       // all axes of operand 0 but the last
  kPerSample,    // axis 0 is that of operand 0; the other operands are the same for all of it
  kBatchStatistics,  // the axes of operand 0 stay, but axis 0 is one that statistics are taken over
  kRowNorm,          // the last LayerNormAttrs::axes axes are one row, and rows are computed one by one
  kRotary,           // as kBroadcast, but elements of the last axis are mixed
  kAttention,        // axes 0 and 1 of all operands, then the queries of operand 0
  kMatrices,         // the last two axes of operands are one matrix; leading axes are broadcast
  kDropout,          // as kElement, by a mask that goes by the number of the sample
  kExpertOrder,      // rows in the order of their experts, a number that is known at run time
  kTakeRows,         // rows of operand 0 in the order of operand 1
  kGroupedMatmul,    // rows of operand 0, each by the matrix of its expert
  kGroupedExpand,    // a row of the result for each row that an expert has
  kRowLoss,          // with reduction `none` a loss for each row of operand 1, else one number
  kElementLoss,      // with reduction `none` a loss for each element, else one number
  kMixes,            // no axis of an operand is one of a result
  kBackward,         // made by autodiff, after all passes that follow axes
};

// In which element types an operator of the forward takes its floating-point operands, in mixed precision.
enum class Takes : uint8_t {
  kAny,        // as they come: one operand, or one that may not be converted
  kWidest,     // all in the widest among them
  kAsReaders,  // moves elements: its operand takes the type that its readers want
  kCompute,    // in the type of products
  kF32,        // where bf16 or f16 loses too much: exponentials, squares, sums, losses
};

AxisRule axis_rule(OpKind kind);
Takes takes(OpKind kind);
// Whether it changes what the ranks of a group have of a value: an exchange between them, or a view that says so. Each
// is a chunk of its own, and so is its derivative, which is a conversion too.
bool is_conversion(OpKind kind);
// A conversion for which ranks send each other something; the others are views.
bool is_communication(OpKind kind);
// Whether the result may show elements of its operand, in the operand's own memory.
bool may_be_view(OpKind kind);

}  // namespace piper::ir
