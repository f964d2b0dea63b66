// Writes the tensors of a model into one safetensors file: streamed from the mapped source files,
// permutations of the importer undone. Used by write_bundle.
#pragma once

#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/bundle_io.h"

namespace piper::plan {

// kLink hard-links where one source file is exactly what would be written, and copies otherwise.
// Errors: P0602, P0603, P0621; P0610 where a tensor lies outside its source.
Status write_weights(const std::string& path, const std::vector<WeightTensor>& tensors, WeightMode mode);

}  // namespace piper::plan
