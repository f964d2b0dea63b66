// What a model allows: into how many stages it can be cut, which of its modules hold experts, and how many. Asked of
// the compiler, by plans for one rank and for a chain of stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/search/base_strategy.h"
#include "compiler/search/pricer.h"

namespace piper::search {

struct ModelLimits {
  int32_t most_stages = 1;
  int64_t experts = 0;                    // of a layer; 0: none that can be on several ranks
  std::vector<std::string> expert_globs;  // of the modules that hold them
  int64_t compiled = 0;                   // plans that it took to know this
};
// `most_stages`: more are not asked for. `samples`: of a probe, that the model takes. Fails, with the compiler's
// reason, where the model does not compile for one rank; `diags` then has the errors with their places.
Result<ModelLimits> limits_of(Pricer& pricer, const BaseStrategy& base, int32_t most_stages, int64_t samples,
                              diag::Diagnostics* diags = nullptr);

}  // namespace piper::search
