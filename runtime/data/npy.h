// NumPy's .npy format, versions 1 to 3: header and data, mapped read-only. C order and little-endian
// only; everything else is refused (R0208).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/element.h"
#include "schemas/base/status.h"
#include "schemas/plan/file_bytes.h"

namespace piper::data {

// A data file mapped into memory. R0201 when it cannot be read.
Result<plan::MappedFile> map_data(const std::string& path);

// A tensor of a data file; `keep_alive` holds the mapping.
struct SourceTensor {
  Element element = Element::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  std::shared_ptr<void> keep_alive;
};

Result<SourceTensor> open_npy(const std::string& path);

}  // namespace piper::data
