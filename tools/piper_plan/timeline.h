// Plays a bundle with unit costs: when each run begins and ends if only runs take time. Used by
// `piper-plan show` for its picture and by `piper-plan simulate`. Needs a bundle that verify()
// accepts; it knows nothing of link speeds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::tools {

// Time of one chunk run by pass; a backward in two halves costs half of it each. Other runs cost 0.
struct Costs {
  double forward = 1, backward = 2;
};

// The parts of an argument list's name, "PP0.F m3"; nullopt for runs that are no chunk pass.
struct ChunkPass {
  std::string chunk, pass;
  int64_t microbatch = 0;
};
std::optional<ChunkPass> chunk_pass(const std::string& argument_list);

struct Span {
  int32_t instruction = -1;
  double begin = 0, end = 0;
};
struct Timeline {
  std::vector<std::vector<Span>> spans;  // per loaded rank: its chunk runs, in issue order
  double step = 0;                       // end of the last instruction
};
Result<Timeline> simulate(const plan::Bundle& bundle, const Costs& costs);

}  // namespace piper::tools
