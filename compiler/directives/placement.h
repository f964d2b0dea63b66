// Who runs what, while directives claim it: one device list per (chunk, microbatch). When all claims
// are in, `settle` checks them as a whole and writes the groups into the DAG.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/dag.h"

namespace piper::directives {

struct Claim {
  std::vector<int32_t> ranks;  // empty: unclaimed
  diag::Span span;             // of the device list
  diag::Span directive;
  std::string stream = "pp";
  diag::Span replicated = {};  // the replicate over exactly these ranks, line 0 where none
};
struct Placement {
  Placement(size_t num_chunks, int32_t num_microbatches)
      : replicated(num_chunks),
        sharded(num_chunks),
        num_microbatches_(num_microbatches),
        claims_(num_chunks * num_microbatches) {}
  Claim& at(ir::ChunkId chunk, int32_t m) { return claims_[chunk.index * num_microbatches_ + m]; }
  const Claim& at(ir::ChunkId chunk, int32_t m) const { return claims_[chunk.index * num_microbatches_ + m]; }
  // The same devices, replicated alike, as for the microbatch before: what a check said of that one holds for this one.
  bool as_before(ir::ChunkId chunk, int32_t m) const {
    return m > 0 && at(chunk, m).ranks == at(chunk, m - 1).ranks &&
           (at(chunk, m).replicated.line == 0) == (at(chunk, m - 1).replicated.line == 0);
  }
  // [chunk] -> the chunk that it became, which has what its first member has.
  void fuse_chunks(const std::vector<ir::ChunkId>& into);
  std::vector<diag::Span>
      replicated;  // [chunk]: a replicate that claims it, on some microbatches at least; line 0 where none
  std::vector<diag::Span> sharded;  // [chunk]: the shard that claims it

 private:
  int32_t num_microbatches_;
  std::vector<Claim> claims_;
};

// Sets dag.placement, groups, chunk_stream, chunk_prov, world_size. Without any claim everything is on device 0.
// Errors: P0219 a chunk without device beside placed ones, P0214 several devices without replicate, P0227 an unused
// rank in between, P0223 a batch that does not divide, P0215 one chunk on unequal groups that overlap, or a device at
// two positions of groups of one size.
Status settle(const Placement& placement, int64_t batch, ir::Dag& dag, diag::Diagnostics& diags);

// For when dag.crossings are known. P0216: data cross between groups of which neither size divides the other.
Status check_nesting(const Placement& placement, const ir::Dag& dag, diag::Diagnostics& diags);

}  // namespace piper::directives
