// Makes one variant of the model ready for the DAG: bound to a local batch, loss chosen, cut into chunks,
// means normalised, differentiated, lowered. Runs once per distinct local batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/emit/lower_programs.h"
#include "compiler/frontend/model_file.h"
#include "compiler/ir/chunks.h"
#include "compiler/passes/partition_experts.h"
#include "compiler/strategy/strategy.h"

namespace piper::driver {

struct ModelVariant {
  int64_t local_batch = 1;
  ir::ChunkedGraph chunked;
  emit::LoweredGraph lowered;
};

// Bind, loss, regions: what a strategy's filters are about.
Result<ir::ChunkedGraph> bind_and_cut(const frontend::ModelFile& model, const strategy::Strategy& strategy,
                                      int64_t batch, int64_t local_batch, diag::Diagnostics& diags);
// What directives make of the forward and of the backward.
struct ForwardShape {
  bool cut = false;                           // the batch of some device group is cut into several pieces
  std::vector<int64_t> segment_bytes;         // [region], see passes/cut_segments.h
  std::vector<std::vector<int64_t>> devices;  // [region][microbatch] that run it
  std::vector<passes::ShardedChunks> shards;  // of regions
};
struct BackwardShape {
  std::vector<bool> split, recompute;  // [chunk]
  std::vector<bool> repeat_some;       // [chunk] some microbatches recompute, others do not
};
// The rest of the forward: copies of what weights alone make, dropout keys, losses as sums of pieces, experts
// partitioned, regions cut into segments.
Status finish_forward(ir::ChunkedGraph& chunked, const strategy::Strategy& strategy, int64_t batch, int64_t local_batch,
                      const ForwardShape& shape, diag::Diagnostics& diags);
// The backward and the programs, which exchange the values that those of `reference` do, if there is one.
Result<ModelVariant> differentiate_and_lower(ir::ChunkedGraph chunked, int64_t local_batch, const BackwardShape& shape,
                                             const ModelVariant* reference, diag::Diagnostics& diags);

// Sets graph.loss by the strategy's choice; may append a loss operator and an input for labels. Errors: P0237.
Status choose_loss(ir::Graph& graph, const strategy::LossChoice& choice, int64_t local_batch, diag::Diagnostics& diags);

// What a token stream feeds to each graph input: "tokens", "next_tokens" or "". Labels that the graph shifts itself get
// the tokens.
std::vector<std::string> token_feeds(const ir::Graph& graph, const strategy::ModelConfig& config);

// True where a glob matches the parameter's name or one of the modules that hold it.
bool names_parameter(const std::vector<std::string>& globs, const std::string& parameter);

}  // namespace piper::driver
