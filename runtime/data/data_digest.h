// Which data set a run is trained on: what a checkpoint says and a run that goes on from it compares.
#pragma once

#include <string>

#include "runtime/data/data_source.h"
#include "schemas/base/status.h"

namespace piper::data {

// SHA-256 over names inside the data set, sizes and bytes: all of them of files up to 64 MiB, of larger ones 64 blocks
// of 1 MiB at equal distances, so that a data set of terabytes costs no pass over it. The element type of a token
// stream, the weights of a mix and the token that ends a document count, paths do not. R0201 when it cannot be read.
Result<std::string> data_digest(const DataOptions& options);
// The same of plan::kQuickBlocks: whether ranks read copies of one data set.
Result<std::string> quick_data_digest(const DataOptions& options);

}  // namespace piper::data
