// Data from several token streams with weights, each a file or a folder of files; also from one folder. Sample n of the
// run, n = (step - 1) batch + position from 0, is the k-th of a source by the mixture of all samples (mixture.h), a
// function of seed and n alone. A source of N samples (token_files.h) gives as its k-th one sample k mod N of epoch
// k div N: in order, or by the permutation of that epoch (permutation.h), whose seed is the first 64 bits of Philox
// (purpose `source`, seed, the source's number). Used through DataSource::open().
#pragma once

#include <memory>

#include "runtime/data/data_source.h"

namespace piper::data {

// R0201, R0206, R0207; R0210: sources that cannot be mixed.
Result<std::unique_ptr<DataSource>> open_mixed_source(const DataOptions& options, const plan::Manifest& manifest);

}  // namespace piper::data
