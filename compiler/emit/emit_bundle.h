// Projects the ordered training DAG onto ranks: programs, buffers, instructions, manifest, provenance.
//
// Input: an ordered DAG and, per distinct local batch, the lowered graph. Output: a Bundle ready for write_bundle, and
// the tensors that go into its weights. Deterministic; microseconds per instruction. Errors: P0510 a value that groups
// of different sizes exchange is not cut along its outermost axis; P0511 such a gradient is not per sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/emit/lower_programs.h"
#include "compiler/ir/module.h"
#include "compiler/strategy/strategy.h"
#include "schemas/plan/bundle_io.h"

namespace piper::emit {

// The model at one local batch. All variants have the same chunks, values and crossings by id.
struct Variant {
  int64_t local_batch = 1;
  const ir::Graph* graph = nullptr;
  const LoweredGraph* lowered = nullptr;
};
struct EmitRequest {
  const ir::Module* module = nullptr;
  std::vector<Variant> variants;  // [0] is the reference
  const strategy::Strategy* strategy = nullptr;
  int64_t batch = 1;  // samples of a step
  std::string model_name, model_sha256, strategy_sha256;
  std::vector<int32_t> decay_group;  // [parameter] index into optimizer.groups
  plan::Optimizer optimizer;
  std::vector<std::string> feeds;  // [graph input] what a token stream feeds: "tokens", "next_tokens", ""
};
struct Emitted {
  plan::Bundle bundle;
  std::vector<plan::WeightTensor> parameters, constants;
};
Result<Emitted> emit_bundle(const EmitRequest& request, diag::Diagnostics& diags);

}  // namespace piper::emit
