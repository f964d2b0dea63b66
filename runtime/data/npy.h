// NumPy's .npy format, versions 1 to 3: header and data, mapped read-only. C order and little-endian
// only; everything else is refused (R0208).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/element.h"
#include "schemas/base/status.h"

namespace piper::data {

// A file mapped into memory, read-only. R0201 when it cannot be read.
class MappedFile {
 public:
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// A tensor of a data file; `keep_alive` holds the mapping.
struct SourceTensor {
  Element element = Element::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  std::shared_ptr<void> keep_alive;
};

Result<SourceTensor> open_npy(const std::string& path);

}  // namespace piper::data
