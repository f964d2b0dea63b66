// The strategy that a search starts from: batch, optimizer, precision and the like, and nothing of how the step is
// spread over ranks.
#pragma once

#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "schemas/base/status.h"

namespace piper::search {

struct BaseStrategy {
  std::string text;  // with what --set says, so that a strategy consists of it and the lines that a search adds
  int64_t batch = 0;
  int32_t ranks_of_node = 0;  // of the machine; 0: all ranks are on one
  std::string capacity;       // factor of the experts of all strategies; "": no rows are dropped
  // Where the user wrote another text: that one, and --set. Errors have their places in it.
  std::string given;
  std::vector<std::string> given_overrides;
};
// `name` is shown in diagnostics. Errors: those of reading YAML and overrides, P0270 where it says how to spread the
// step already, P0228 where it has no batch.
Result<BaseStrategy> read_base(const std::string& name, const std::string& text,
                               const std::vector<std::string>& overrides, diag::Diagnostics& diags);

}  // namespace piper::search
