// The table of contents of piperc: every pass, in order. The frame that runs them is run_pipeline.h.
#pragma once

#include <span>
#include <string_view>

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/compilation.h"

namespace piper::driver {

struct Pass {
  std::string_view name;
  std::string_view phase;    // the group of passes that it is of; --stop-after and --print-ir-after take it too
  std::string_view needs;    // what must hold before it
  std::string_view ensures;  // what holds after it, for every later pass
  std::string_view why;      // why it is here and not elsewhere
  Status (*run)(Compilation& c, diag::Diagnostics& diags);
};

std::span<const Pass> pipeline();
// The pass of a name, or null.
const Pass* find_pass(std::string_view name);

}  // namespace piper::driver
