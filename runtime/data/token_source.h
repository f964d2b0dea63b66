// Data from a token stream: a .bin file of unsigned 16- or 32-bit tokens, or any other file as bytes.
// Sample n of length T feeds inputs marked "tokens" with t[i..i+T) and "next_tokens" with
// t[i+1..i+T+1). Used through DataSource::open().
#pragma once

#include <memory>

#include "runtime/data/data_source.h"

namespace piper::data {

Result<std::unique_ptr<DataSource>> open_token_source(const DataOptions& options, const plan::Manifest& manifest);

}  // namespace piper::data
