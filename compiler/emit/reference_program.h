// The training step of a differentiated graph as one flat list of kernel calls, for the proof (plan::Reference). Used
// by driver/make_reference.
//
// Input: a graph after autodiff, whatever its chunks and phases are. Output: the calls that lower_programs would make
// of it as one program, but with a slot for each value that a call makes: nothing shares memory, nothing is saved, and
// no kernel adds into an accumulator but `add_into`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::emit {

// For so many samples.
struct ReferenceProgram {
  int64_t samples = 0;  // that the graph is bound to
  plan::Program program;
  std::vector<std::string> lines;  // [call] of the model's source
  struct Constant {
    int32_t slot = -1;
    ir::TensorType type;
    ir::WeightSource source;
  };
  std::vector<Constant> constants;  // by slot
};
ReferenceProgram reference_program(const ir::Graph& graph, int64_t samples);

// As a reference for pieces of that size: with its own numbers. Failures as those of merge_references.
Result<plan::Reference> reference_for_pieces(const ReferenceProgram& program);

// What two such programs of one model for whole steps have in common: numbers that differ must be multiples of their
// samples, constants grow with them or be alike for each. Failures, without a code, say which one is not.
Result<plan::Reference> merge_references(const ReferenceProgram& a, const ReferenceProgram& b);
// The same, where constants that are neither are those of the step, a third such program.
Result<plan::Reference> merge_references(const ReferenceProgram& a, const ReferenceProgram& b,
                                         const ReferenceProgram& step);

}  // namespace piper::emit
