// piperc without its command line: reads the files, runs the passes of pipeline.h, proves the plans and writes them. It
// prints what --emit and --expand ask for, else one line on the bundle that it wrote; and the times and texts of
// passes.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "schemas/base/status.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/timeline/machine.h"

namespace piper::driver {

struct Compilation;

enum class Emit : uint8_t {
  kNone,
  kGraph,
  kDag,
  kPlan,
  kReference,  // prints nothing: the plan is one for one device, without the strategy's directives and schedule
};
enum class Expand : uint8_t { kNone, kYaml, kCsv };

struct CompileOptions {
  std::string model, strategy, output;  // output "": nothing is written
  std::vector<std::string> overrides;
  std::string route = "auto";
  Emit emit = Emit::kNone;
  Expand expand = Expand::kNone;
  bool process_ends_next =
      false;  // what the compilation holds is left to the system: freeing it piece by piece costs a tenth of a run
  std::string stop_after;      // a name of stops(), or ""
  std::string print_ir_after;  // a glob over names of passes and phases, or ""
  plan::WeightMode weights = plan::WeightMode::kCopy;
  plan::Target target;                               // what the plans are made for
  bool reference = true;                             // the bundle holds the model's step, for the proof
  bool packs = true;                                 // buffers share bytes; without, plans can be priced and not run
  std::optional<timeline::Machine> machine;          // that the plans are priced for, of the target's device
  int64_t memory_limit = 0;                          // bytes per rank; 0: none
  bool checkpoints = false;                          // runs will save some: the peak of CPU ranks has the copy
  bool time_phases = false;                          // the time of every pass
  bool verify_each = false;                          // the module after every pass
  std::string fail_in;                               // a pass that fails as if it had a bug (FrameOptions)
  std::string reproducer = "piperc-reproducer.pir";  // written where a pass fails by a bug
};
// What --stop-after takes: phases and passes in order, `load` before them, `verify` and `write` after them.
const std::vector<std::string>& stops();

// The phase `load`, before the passes: reads the strategy and the model, side by side. Where both are wrong, the
// errors of the strategy are reported.
Status load(const CompileOptions& options, Compilation& c, diag::Diagnostics& diags);

enum class Outcome : uint8_t {
  kMade,
  kTooLarge,  // the same, but a rank needs more memory than the machine has, and no memory_limit says otherwise
};
// Runs a whole compilation. A bug throws; its message names the pass, and the reproducer that was written. Errors are
// in `diags` where they have a place, else in the Status.
Result<Outcome> compile(const CompileOptions& options, diag::Diagnostics& diags, std::ostream& out, std::ostream& err);

// For whoever compiles many strategies of one model (compiler/tune): `text`, a strategy named options.strategy, goes
// through all passes into `c`, whose model is set. Nothing is printed, written or proved, no limit of memory holds, and
// the plans have no digests. A bug throws PassFailure (run_pipeline.h).
Status compile_in_memory(const CompileOptions& options, const std::string& text, Compilation& c,
                         diag::Diagnostics& diags);
// Proves plans that were made, and lets their manifest say how much of them is the model. A refutation is a bug:
// throws.
void prove(plan::Bundle& bundle);

}  // namespace piper::driver
