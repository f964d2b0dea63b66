#include "compiler/diag/explain.h"

namespace piper::diag {

const std::vector<CodeEntry>& all_codes() {
  static const std::vector<CodeEntry> codes = {
#define PIPER_CODE(code, title, why, fix) {#code, title, why, fix},
#include "compiler/diag/codes.def"
#undef PIPER_CODE
  };
  return codes;
}

std::string explain(std::string_view code) {
  for (const CodeEntry& entry : all_codes()) {
    if (entry.code != code) continue;
    std::string page = "# " + std::string(entry.code) + ": " + std::string(entry.title) + "\n\n";
    page += "**Why.** " + std::string(entry.why) + "\n\n**What to do.** " + std::string(entry.fix) + "\n";
    return page;
  }
  return "";
}

}  // namespace piper::diag
