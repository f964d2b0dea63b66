// The first half of cut_chunks: which region of each tag an op belongs to by the annotations
// alone, before untagged ops join a neighbour. Not a pass of its own.
#pragma once

#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/analysis/op_roles.h"
#include "compiler/strategy/strategy.h"

namespace piper::regions {

struct TagColumn {
  std::string tag;
  bool is_partition = false;         // every op must end up in one of its regions
  int32_t count = 0;                 // regions 0..count-1
  std::vector<int32_t> region;       // [op], -1 = none
  std::vector<int32_t> by_position;  // [op], starts and stages only: where the op would be by its index
};
// One column per tag, sorted by tag. `roles`: what depends on no parameter is work where a region has no other. Errors:
// P0210, P0211, P0207 (fewer blocks than stages), P0217 (one tag cut in two ways).
Result<std::vector<TagColumn>> assign_regions(const ir::Graph& graph, std::vector<analysis::OpRole>& roles,
                                              const std::vector<strategy::Annotation>& annotations,
                                              diag::Diagnostics& diags);

// Floating-point operations of an op's forward, an estimate that serves balancing only.
double estimate_flops(const ir::Graph& graph, const ir::Op& op);
// [op] -> stage: contiguous ranges of blocks (module paths up to the first numbered component) with
// the smallest possible largest cost. Fewer blocks than stages: an empty vector.
std::vector<int32_t> balance_stages(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles,
                                    int32_t num_stages, std::vector<double>& stage_cost);

}  // namespace piper::regions
