// What directives ask to be cut, held against what can be (follow_cuts.h, find_tables.h): a weight or a table that is
// named is cut, or an error says what stops it; remarks say what is cut of what is not named. Nothing is changed. Used
// by passes/partition_tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/distribution.h"
#include "compiler/tensors/find_tables.h"
#include "compiler/tensors/follow_cuts.h"
#include "schemas/base/status.h"

namespace piper::tensors {

// [chunk] what a directive cuts in it.
std::vector<ChunkCut> find_chunk_cuts(const ir::Distribution& distribution);

class AskedCuts {
 public:
  AskedCuts(const ir::ChunkedGraph& chunked, const ir::Distribution& distribution, const std::vector<ChunkCut>& chunks,
            diag::Diagnostics& diags);

  // Errors: P0256 a named weight that cannot be cut, P0257 one that the places do not divide, P0258 a glob that matches
  // nothing. Remarks on tables that stay whole.
  Result<FollowedCuts> follow();
  const std::vector<Table>& tables() const { return tables_; }  // that are cut
  // Remarks: which weights of each chunk are cut, and which stay whole, and why. P0273, a warning: a directive that
  // cuts no weight.
  void tell(const FollowedCuts& found) const;

 private:
  struct Stopped {
    Table table;
    Obstacle at;
  };
  const std::vector<ir::CutSeed>& asked(ir::ChunkId chunk) const { return distribution_.chunks[chunk.index].seeds; }
  const ir::Parameter& parameter(ir::ValueId v) const { return graph_.parameters()[graph_.value(v).payload]; }
  const ir::Parameter& weight_of(ir::OpId linear) const { return parameter(weights_.at(linear)); }
  const ir::CutSeed* asks_for(const Table& table) const;
  void find_tables();
  Result<std::vector<ir::OpId>> find_seeds();
  bool matches(const ir::CutSeed& seed, ir::OpId linear) const;
  FollowedCuts follow(const std::vector<ir::OpId>& seeds);
  Status check_globs(const std::vector<ir::OpId>& products);
  Status check_named(const FollowedCuts& found);
  Status check_named_tables();
  void tell_whole(const FollowedCuts& found) const;
  void warn_of_no_effect(const FollowedCuts& found) const;
  std::string described(ir::OpId id) const;
  Status uneven(ir::OpId id, const std::string& what);

  const ir::ChunkedGraph& chunked_;
  const ir::Graph& graph_;
  const ir::Distribution& distribution_;
  const std::vector<ChunkCut>& chunks_;
  diag::Diagnostics& diags_;
  std::vector<Table> candidates_, tables_;        // that can be named; that are cut
  std::vector<Stopped> stopped_;                  // tables that are asked for and cannot be cut
  std::map<ir::OpId, ir::ValueId> weights_;       // of products in chunks that are cut
  std::map<ir::OpId, const ir::CutSeed*> named_;  // products whose weights a glob matches
  std::map<ir::OpId, int64_t> uneven_;            // of these: output features that the places do not divide
};

}  // namespace piper::tensors
