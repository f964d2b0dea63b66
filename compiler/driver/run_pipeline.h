// The frame around the passes: runs them in order, times, verifies and prints, and stops where it is asked to.
#pragma once

#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/compilation.h"
#include "compiler/driver/pipeline.h"

namespace piper::driver {

struct FrameOptions {
  std::string stop_after;      // a pass or a phase; "": all run
  std::string print_ir_after;  // a glob over names of passes and phases; "": nothing is printed
  bool time_passes = false;
  bool verify_each = false;  // checks the module after each pass, by the rules of its parts
  std::string fail_in;       // a pass that fails as if it had a bug, so that tests see what follows; "": none
};

// A bug that a pass met: the failed check's message and the pass's name. Thrown by run_pass.
class PassFailure : public std::runtime_error {
 public:
  PassFailure(std::string_view pass, const std::string& what) : std::runtime_error(what), pass_(pass) {}
  const std::string& pass() const { return pass_; }

 private:
  std::string pass_;
};

// Runs one pass, and verifies the module where asked to. What the user did wrong is a Status, a bug a PassFailure.
Status run_pass(const Pass& pass, Compilation& c, const FrameOptions& options, diag::Diagnostics& diags);

// Runs the pipeline on `c`. What is printed goes to `err`. `behind_phase(phase)` is called when the last pass of a
// phase is done. Returns the first failure of a pass; sets `stopped` where stop_after ended the run.
Status run_pipeline(Compilation& c, const FrameOptions& options, diag::Diagnostics& diags, std::ostream& err,
                    const std::function<void(std::string_view phase)>& behind_phase, bool& stopped);

// Whether a pass or a phase has a name that FrameOptions::print_ir_after `glob` matches.
bool names_a_pass(const std::string& glob);

// Names of passes, and before the first pass of each phase the phase's, in order.
std::vector<std::string> stop_names();

}  // namespace piper::driver
