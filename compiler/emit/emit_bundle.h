// Projects the ordered training DAG onto ranks: programs, buffers, instructions, manifest, provenance.
//
// Input: a module whose state is laid out (passes/lay_out_state.h). Each role is emitted once and bound to its ranks
// (role.h). Output: a Bundle ready for write_bundle, and the tensors that go into its weights. Called by the driver,
// for a training and for its evaluation. Deterministic; microseconds per instruction. Errors: P0510 a value that groups
// of different sizes exchange is not cut along its outermost axis; P0511 such a gradient is not per sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/strategy/strategy.h"
#include "schemas/plan/bundle_io.h"

namespace piper::emit {

struct EmitRequest {
  const ir::Module* module = nullptr;  // complete
  // Of a module that evaluates: the plans of its training, where what outlasts a step has its place; else null.
  const plan::Bundle* training = nullptr;
  const strategy::Strategy* strategy = nullptr;
  std::string model_name, model_sha256, strategy_sha256;
  std::vector<int32_t> group;  // [parameter] index into optimizer.groups
  plan::Optimizer optimizer;
  plan::Target target;
  std::vector<plan::Feed> feeds;  // [graph input]
};
struct Emitted {
  plan::Bundle bundle;
  std::vector<plan::WeightTensor> parameters, constants;
};
Result<Emitted> emit_bundle(const EmitRequest& request, diag::Diagnostics& diags);

}  // namespace piper::emit
