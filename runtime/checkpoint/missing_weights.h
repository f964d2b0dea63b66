// A base that others trained, and adapters: which tensors of a model the files of --load may lack, and do, and a file
// that takes precedence over them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/plan/weight_files.h"

namespace piper::checkpoint {

// First names, of tensors that a glob covers by any of their names and that none of `files` has under any. R0505: a
// glob covers no tensor of the model.
Result<std::set<std::string>> missing_weights(const plan::Manifest& manifest,
                                              const std::vector<const plan::WeightFiles*>& files,
                                              const std::vector<std::string>& globs);
// R0505: the file of adapters at `path` has a tensor that is none of the model's.
Status check_adapters(const plan::Manifest& manifest, const plan::WeightFiles& adapters, const std::string& path);

}  // namespace piper::checkpoint
