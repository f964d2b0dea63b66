// Reads ranks/*.json against tables that are built once for all ranks of a bundle. Used by the
// bundle's reader; parse_rank_plan of bundle_io.h is the same for one plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

// Views into the bundle's programs and provenance, which must outlive it.
struct SharedNames {
  NameIndex programs, provenance;
  const std::vector<Program>* all_programs = nullptr;
  // By program: what the range bound to each slot must be a multiple of, for its widest element; the workspace's last.
  std::vector<std::vector<int64_t>> alignments;
  int32_t world_size = 1 << 20;  // of the manifest, where it was read
};
NameIndex index_buffers(const RankPlan& plan);
SharedNames index_names(const std::vector<ProvenanceEntry>& provenance, const std::vector<Program>& programs);

Result<RankPlan> parse_rank_plan(std::string_view text, const std::string& file, const SharedNames& names,
                                 const PlanOfRank& like);

}  // namespace piper::plan
