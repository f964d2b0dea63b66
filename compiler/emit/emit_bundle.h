// Projects the ordered training DAG onto ranks: programs, buffers, instructions, manifest, provenance.
//
// Input: a module whose state and training are laid out (passes/lay_out_state.h, driver/lay_out_training.h). Each role
// is emitted once and bound to its ranks (role.h). Output: a Bundle ready for write_bundle, and the tensors that go
// into its weights. Called by the driver, for a training and for its evaluation. Deterministic; microseconds per
// instruction. Errors: P0510 a value that groups of different sizes exchange is not cut along its outermost axis; P0511
// such a gradient is not per sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"
#include "schemas/plan/bundle_io.h"

namespace piper::emit {

struct EmitRequest {
  const ir::Module* module = nullptr;  // complete
  // Of a module that evaluates: the plans of its training, where what outlasts a step has its place; else null.
  const plan::Bundle* training = nullptr;
  plan::Source model, strategy;  // the files that the module is made of
  plan::Target target;
  bool packs = true;  // of place_buffers.h
};
struct Emitted {
  plan::Bundle bundle;
  std::vector<plan::WeightTensor> parameters, constants;
};
Result<Emitted> emit_bundle(const EmitRequest& request, diag::Diagnostics& diags);

}  // namespace piper::emit
