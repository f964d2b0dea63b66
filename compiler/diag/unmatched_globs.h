// One rule for every list of globs in a strategy: a list that matches nothing is an error, for what it was to do would
// silently not be done; of one that matches something, each glob that matches nothing is a warning.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "schemas/base/status.h"

namespace piper::diag {

struct GlobUse {
  std::string glob;
  Span span;
  bool matches = false;
};

// `say` adds the message, notes and the help about a glob. Ok where only warnings are given.
Status tell_unmatched_globs(const std::vector<GlobUse>& globs, const std::string& code, Diagnostics& diags,
                            const std::function<void(InFlight& message, const std::string& glob)>& say);

}  // namespace piper::diag
