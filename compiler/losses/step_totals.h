// Numbers of the whole step that forwards read: sums over its samples of what no parameter enters, such as the number
// of positions of a loss mask or the mean of an input, and what is made of them (BatchKind::kTotal). Each chunk that
// reads one adds it up from its own copy of the operators, over microbatches and devices, before its first forward:
// operators of phase kCount up to step_sum, and of kCountFinish after it.
//
// Input level: chunked forward graph. Operators are appended; nothing is changed or dropped.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/analysis/track_batch.h"

namespace piper::losses {

class StepTotals {
 public:
  // pieces: microbatches x replicas. All three live longer.
  StepTotals(ir::Graph& graph, const analysis::BatchMap& batch, int64_t pieces, diag::Diagnostics& diags)
      : graph_(graph), batch_(batch), pieces_(pieces), diags_(diags) {}

  // The value of v on the whole batch, for operators of the reader's chunk; v itself where it is no total.
  Result<ir::ValueId> wide(const ir::Op& reader, ir::ValueId v);
  // v as made by operators of phase kCount alone, in the reader's chunk. `copies`: what has been copied for one sum.
  // Error P0332: a parameter enters, or another total, which is known after all counts alone.
  using Copies = std::map<uint32_t, ir::ValueId>;
  Result<ir::ValueId> copy(const ir::Op& reader, ir::ValueId v, Copies& copies);

 private:
  Result<ir::ValueId> finish_count(const ir::Op& reader, ir::ValueId v);
  Result<ir::ValueId> added_up(const ir::Op& reader, const ir::Op& op);
  ir::GraphBuilder builder(const ir::Op& like, ir::ChunkId chunk, ir::Phase phase);

  ir::Graph& graph_;
  const analysis::BatchMap& batch_;
  int64_t pieces_;
  diag::Diagnostics& diags_;
  std::map<std::pair<uint32_t, uint32_t>, ir::ValueId> made_;  // (chunk, value) -> finish_count()
};

}  // namespace piper::losses
