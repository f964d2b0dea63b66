// Derives the backward of a bound graph, op by op, and appends it to the graph.
//
// Input level: forward graph, `loss` set, every op's `chunk` set, batch means already written as
// sums x 1/count (normalise_losses). Output level: the same ops, then phase-kBackward ops in
// a topological order, each with the chunk of the forward op it serves, ending for each parameter in
// accumulate_grad ops: one per (parameter, chunk), "each use has its own accumulator".
//
// Sums of several gradients of one value are made per chunk first, in reverse op order of the
// uses, then added in the producer's chunk in descending chunk order: the sum's order depends on the
// graph and its chunks alone, never on placement. Input and weight gradients are separate ops, so that a
// backward chunk can be cut into input part and weight part. Nothing is differentiated that no trained
// parameter needs. Values that the backward reads are exactly the operands of its ops.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"

namespace piper::autodiff {

// [value] -> its total gradient, invalid where none. A parameter read in several chunks has no total: its
// accumulate_grad ops name the sum of each chunk. Errors: P0420 an operator on the path to a parameter has no rule, or
// one that leaves out a result whose gradient is not zero (named with node and module), P0421 the loss does not depend
// on any trained parameter (a warning where it does by steps alone: PyTorch has gradients of zeros, by which weights
// decay), P0422 the loss is not a scalar.
//
// `choices`: of the first of several graphs that differ in extents alone; the others follow them, so that their values
// are the same by id.
Result<std::vector<ir::ValueId>> differentiate(ir::Graph& graph, diag::Diagnostics& diags,
                                               ir::BuilderChoices* choices = nullptr);

// --- rules: one file per operator family under rules/, one function per operator, named in its row of ops.def.
struct RuleContext {
  ir::GraphBuilder& b;  // phase kBackward, the op's scope and chunk, derived provenance
  const ir::Op& op;
  // Gradient of each result; invalid = zero, except that of a floating result 0. Read by rules/operand_gradients.h.
  const std::vector<ir::ValueId>& grad_results;
  const std::vector<bool>& needs;  // [operand] its gradient is wanted
  std::vector<bool>& read;         // [result] a rule has asked for its gradient; one that none asks for would be lost
};
// Gradients of the operands, in operand order; invalid = none (not wanted, or not differentiable).
using Rule = std::vector<ir::ValueId> (*)(const RuleContext&);
Rule find_rule(ir::OpKind kind);  // nullptr where the operator has none

// The column `derivative` of ops.def.
enum class Derivative : uint8_t {
  kRule,  // differentiable: find_rule gives the rule
  kZero,  // the gradient stops here: bool and integer results, or the model says so
  kStep,  // it is zero: nothing is computed of it, but what the loss depends on by steps alone has a gradient of zeros
  kNone,  // not differentiated: a backward operator, or one that other passes remove or make
};
Derivative derivative_of(ir::OpKind kind);
bool passes_gradient(ir::OpKind kind);  // neither kZero nor kStep

}  // namespace piper::autodiff
