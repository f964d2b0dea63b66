// Data from one token file: a .bin file of unsigned 16- or 32-bit tokens, or any other file as bytes. Sequential:
// sample n begins at token nT. Shuffled: at the first 64 bits of Philox (purpose `data`, seed, step from 1, position in
// the batch) mod (length - T). Used through DataSource::open().
#pragma once

#include <memory>

#include "runtime/data/data_source.h"

namespace piper::data {

Result<std::unique_ptr<DataSource>> open_token_source(const DataOptions& options, const plan::Manifest& manifest);

}  // namespace piper::data
