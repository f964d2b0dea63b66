// Which tensors of a model the files of --load may lack, and do: adapters beside a base that others trained.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/plan/weight_files.h"

namespace piper::checkpoint {

// First names, of tensors that a glob covers by any of their names and that `files` has under none. R0505: a glob
// covers no tensor of the model.
Result<std::set<std::string>> missing_weights(const plan::Manifest& manifest, const plan::WeightFiles& files,
                                              const std::vector<std::string>& globs);

}  // namespace piper::checkpoint
