// Which stage of the strategy a chunk belongs to. Where regions overlap (a stage and the experts inside of it), or are
// cut at collectives or into buckets, a stage is several chunks; what the user placed and ordered is the stage. Used by
// show and simulate.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "schemas/plan/plan.h"

namespace piper::timeline {

class Stages {
 public:
  explicit Stages(const plan::Bundle& bundle);

  // "PP0" for chunks PP0, PP0/2, EP1.PP0.rest: its values of the tags that all chunks have. Where no tag is in all
  // chunks, the chunk's own tags; the chunk itself where it has none.
  std::string stage_of(const std::string& chunk) const;
  // How many chunks of its stage have this pass; at least 1.
  int64_t pieces_of(const std::string& chunk, const std::string& pass) const;

 private:
  std::set<std::string> common_;                                   // tags of all chunks
  std::map<std::pair<std::string, std::string>, int64_t> pieces_;  // by stage and pass
};

}  // namespace piper::timeline
