// Rule 12: equality with the model. The programs of a plan, put together by what they hand to each other, compute for
// each parameter the gradient, and for the step the loss and the number of dropped rows, that the reference computes:
// sums of the same numbers, one of each for every sample. So do those of an evaluation for what it reports. Who hands
// what to whom, for which samples, is rules 8 to 10, which must hold; so only what is inside of programs is looked
// at here, once for each program, whatever the number of ranks.
//
// Each gradient, the loss and each running statistic is one of three: proved; not covered, with the reason; or refuted.
// A kernel without a row (rows.def), or a rewrite without a rule, makes what depends on it not covered and refuses
// nothing.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/exchanges.h"
#include "schemas/verify/numbers/casts.h"

namespace piper::verify {

struct EqualityReport {
  bool looked = false;  // there was a reference
  std::string results;  // what is compared: "gradients and losses", and whatever else is reported
  int64_t proved = 0;   // of these, how many are the reference's
  int64_t numbers = 0;  // distinct ones, of reference and plan
  HeldCasts casts;      // of the reference, to the model without them
  // Samples in each piece where the reference is for pieces (0: it is not), and the kernels that read these samples
  // together.
  int64_t piece = 0;
  std::set<std::string> mixing;
  // Why the others are not known to be: distinct reasons, in the order in which they were met, each with how many
  // results it concerns.
  struct Open {
    std::string why;
    int64_t count = 0;
    std::string first;  // one of them, as an example
  };
  std::vector<Open> open;
  bool whole() const { return looked && open.empty(); }
};

// Refuted: P0641 with the call, the model's operator and its line; also where fewer results are proved than the
// manifest says. `exchanges` are what rules 8 to 10 found (contents_flow.h); values that travelled by other exchanges
// are not proved.
Result<EqualityReport> check_equality(const plan::Bundle& bundle, const Exchanges& exchanges = {});

// One line without an end: of what it is not proved, and why; "" where all is proved.
std::string not_proved(const EqualityReport& report);
// One line or more: what `piper-plan verify` says of it.
std::string describe(const EqualityReport& report);

}  // namespace piper::verify
