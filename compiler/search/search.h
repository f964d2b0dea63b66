// Finds strategies for a model, machines and their memory: `piperc --search`, and `--fits` for the question alone
// whether there is one. Points of the space (space.h) have lower bounds (bounds.h); the most promising are compiled and
// priced (explore.h); the best are tuned as `piperc --tune` does it, proved and written. Why it is as it is:
// decision 83.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/search/base_strategy.h"
#include "compiler/search/explore.h"

namespace piper::search {

struct SearchOptions {
  // model, strategy (the base; "": AdamW in bf16 with f32 masters, a sample a rank), overrides, machine, memory_limit
  // (0: the machine's), target.
  driver::CompileOptions compile;
  std::string directory;           // where files are written
  int32_t nodes = 1;               // of the machine
  int32_t ranks = 0;               // in place of nodes, where they are fewer than a node's; 0: nodes says it
  std::vector<std::string> fixed;  // "pp=4"
  size_t keep = 5;                 // strategies that are written
  double worth = 0.01;             // of ExploreOptions
  double dollars_per_hour = 0;     // of one rank; 0: no prices
  int64_t candidates = 60;         // of tuning each of the best; 0: none is tuned
  std::string kernel_times;        // a file of `piper-run --calibrate`, or ""
  bool json = false;               // of what is printed
  std::function<bool()> stop;      // end with the best so far
  std::function<void(size_t, size_t, double)> progress;
};

// All that was found, before anything is written.
struct Searched {
  BaseStrategy base;
  std::vector<std::string> experts;
  std::vector<Point> points;
  Explored explored;
  int64_t memory_limit = 0;
  int64_t compiled = 0;  // probes and points
};

// Writes 01.yaml and so on, table.md, rejected.md and tradeoff.html into the directory, and prints the table, or JSON.
// Every strategy is proved before it is written (write_found.h). Errors: P0101, P0228, P0270 of the base, P0271 nothing
// fits, P0272 of `fixed`, P0602. A bug throws.
Status search(const SearchOptions& options, diag::Diagnostics& diags, std::ostream& out);
// Prints one line: whether the model fits, and how.
Status fits(const SearchOptions& options, diag::Diagnostics& diags, std::ostream& out);

}  // namespace piper::search
