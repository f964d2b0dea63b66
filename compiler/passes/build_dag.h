// Builds the training DAG of one step from a placed, differentiated model: compute nodes per
// (chunk, pass, microbatch) with their data edges.
//
// Input level: lowered graph (crossings known), placement known. Output level: compute nodes only, all edges direct,
// also across groups: insert_transfers stands right behind it and replaces those. It must see the final number of
// microbatches.
#pragma once

#include <array>
#include <vector>

#include "compiler/ir/dag.h"

namespace piper::passes {

// What a chunk has, from the lowered programs.
struct ChunkShape {
  bool has_count = false, has_forward = false, has_backward = false, has_backward_weight = false;
  bool has_count_finish = false;    // once per step
  std::vector<uint32_t> gradients;  // parameters whose gradients its backward adds up, ascending
  std::vector<uint32_t> reads;      // parameters its programs read, ascending
  std::array<std::vector<uint32_t>, ir::kNumPasses> pass_reads;  // the same by pass
  std::array<std::vector<uint32_t>, ir::kNumPasses>
      repeating_reads;  // of microbatches that repeat their forward where others do not
};

// Sets nodes, edges and `compute` of a Dag whose chunks, crossings, num_microbatches, placement and loss_chunks are
// set.
void build_dag(ir::Dag& dag, const std::vector<ChunkShape>& shapes);

}  // namespace piper::passes
