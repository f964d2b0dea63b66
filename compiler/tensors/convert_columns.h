// What follow_cuts.h has found, in the graph: types of parts, what enters a part of it and what is added up after it.
// Used by passes/partition_tensors.
#pragma once

#include <set>
#include <vector>

#include "compiler/ir/chunks.h"
#include "compiler/tensors/convert_rest.h"
#include "compiler/tensors/find_tables.h"
#include "compiler/tensors/follow_cuts.h"
#include "compiler/tensors/rest.h"

namespace piper::tensors {

class ConvertColumns {
 public:
  // `cut`: [chunk] that has conversions, to which more are added; `ways`: of their results.
  ConvertColumns(ir::Graph& graph, const std::vector<ChunkCut>& chunks, BuilderAt builder_at, std::vector<bool>& cut,
                 Ways& ways)
      : graph_(graph), chunks_(chunks), builder_(std::move(builder_at)), cut_(cut), ways_(ways) {}

  // Types of parts of features and of classes, then of sequences.
  void cut_values(const FollowedCuts& found, const std::vector<Table>& tables);
  void cut_values(const Rest& rest, const FollowedCuts& found);
  void enter(const FollowedCuts& found, const Rest& rest);
  void add_up(const FollowedCuts& found, const Rest& rest);

 private:
  template <class PartOf>
  void cut_types(const PartOf& part_of);
  ir::CutDim dim_of(ir::OpId id) const;
  bool is_converted_for_some(ir::ValueId v, const Rest& rest, size_t ops) const;

  ir::Graph& graph_;
  const std::vector<ChunkCut>& chunks_;
  const BuilderAt builder_;
  std::vector<bool>& cut_;
  Ways& ways_;
  std::set<ir::OpId> of_tables_;  // operators that read tables which are cut
};

}  // namespace piper::tensors
