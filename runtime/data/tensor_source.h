// Data from tensor files: a .safetensors file or a directory of .npy files, one tensor per model
// input, first dimension = samples. Used through DataSource::open().
#pragma once

#include <memory>

#include "runtime/data/data_source.h"

namespace piper::data {

Result<std::unique_ptr<DataSource>> open_tensor_source(const DataOptions& options, bool directory,
                                                       const plan::Manifest& manifest);

}  // namespace piper::data
