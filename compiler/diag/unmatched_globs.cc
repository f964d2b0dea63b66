#include "compiler/diag/unmatched_globs.h"

#include <algorithm>

namespace piper::diag {

Status tell_unmatched_globs(const std::vector<GlobUse>& globs, const std::string& code, Diagnostics& diags,
                            const std::function<void(InFlight& message, const std::string& glob)>& say) {
  const bool some = std::any_of(globs.begin(), globs.end(), [](const GlobUse& use) { return use.matches; });
  for (const GlobUse& use : globs) {
    if (use.matches) continue;
    InFlight message = some ? diags.warning(code, use.span) : diags.error(code, use.span);
    say(message, use.glob);
    if (!some) return message;
  }
  return {};
}

}  // namespace piper::diag
