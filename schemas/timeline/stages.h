// Which stage of the strategy a chunk belongs to. Where regions overlap (a stage and the experts inside of it), or are
// cut at collectives or into buckets, a stage is several chunks; what the user placed and ordered is the stage. Used by
// show and simulate.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::timeline {

class Stages {
 public:
  explicit Stages(const plan::Bundle& bundle);

  // "PP0" for chunks PP0, PP0/2, EP1.PP0.rest: its values of the tags that all chunks have. Where no tag is in all
  // chunks, the chunk's own tags; where it has none those of its region, or the region's name. `chunk` is an index into
  // Manifest::chunks.
  const std::string& stage_of(int32_t chunk) const { return stages_.at(static_cast<size_t>(chunk)); }
  // How many chunks of its stage have this pass; at least 1.
  int64_t pieces_of(int32_t chunk, plan::Pass pass) const;

 private:
  std::vector<std::string> stages_;                               // [chunk]
  std::map<std::pair<std::string, plan::Pass>, int64_t> pieces_;  // by stage and pass
};

}  // namespace piper::timeline
