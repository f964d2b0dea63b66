// Makes a strategy faster on a machine, within a limit of memory: `piperc --tune`, which `piper-plan tune` calls. A
// greedy search: each change (proposals.h) is compiled and priced (trial.h), and of those of one kind the best is kept
// if it is better. So the result is never worse than the start, and the same for the same input. It changes passes,
// buckets, prefetch and recomputation; which device has what, and what is sharded, stay. Why it is part of the
// compiler: decision 41.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "compiler/driver/compile.h"

namespace piper::tune {

struct TuneOptions {
  driver::CompileOptions compile;  // model, strategy, overrides, machine, memory_limit (0: the machine's), target
  std::string output;              // the strategy file that is written
  std::string kernel_times;        // a file of `piper-run --calibrate`, or ""
  std::string profile;             // a file of `piper-run --profile` of the start, or ""
  int64_t candidates = 300;        // strategies that are compiled at most
  std::function<bool()> stop;      // end with the best so far; asked between candidates
};

// Kernel calls take the times of the profile (profile_times.h), those that it lacks the times of the table, and the
// others what the machine's roofline says, times what profiled calls of the same kernel took beside theirs; links and
// memory are the machine's.
//
// Better is what is less over the limit, then what is faster, by a thousandth of the start at least. Writes the
// strategy with a comment for each change, which says what it gained, and prints the same on `out`. Overrides become
// part of its text, except where the start is a bare list, which has no keys. Every strategy that is kept was proved.
// Errors: those of compiling the start, P0520 where nothing that was tried fits, P0602. A bug throws.
Status tune(const TuneOptions& options, diag::Diagnostics& diags, std::ostream& out);

}  // namespace piper::tune
