// Proves, from a bundle alone, that its plans run to the end and read what they should, or refutes it with a story that
// names ranks, instructions and directives. Used by piperc before it reports success, by piper-run at load and by
// `piper-plan verify`. Shares only the plan format (schemas/plan) with the compiler; needs a bundle as read_bundle
// gives it (names resolved, ranges inside their buffers). Linear in the instructions, up to the number of streams of a
// rank. With only some ranks loaded, rules 1 to 4 hold among those. The rules: rules.def.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/equality.h"

namespace piper::verify {

// A part of the proof: how long it took, of the wall clock (parts that ran side by side overlap), and at how many of
// what it looked.
struct PartOfProof {
  std::string rules;  // which
  double seconds = 0;
  int64_t looked_at = 0;
  const char* of_what;
};

// What the proof looked at, and what it found.
struct VerifyReport {
  int64_t ranks = 0, instructions = 0, messages = 0, collectives = 0, accesses = 0;
  int64_t replicas = 1;   // of which one was followed for all (contents_flow.h)
  bool complete = false;  // all ranks of the world were there
  std::string sum_order;  // sum_order.h; "" where ranks are missing
  std::vector<PartOfProof> parts;
  EqualityReport equality;
  std::vector<EqualityReport> evaluations;  // [Bundle::evaluation]
};

Result<VerifyReport> verify(const plan::Bundle& bundle);

}  // namespace piper::verify
