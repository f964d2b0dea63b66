// The tensors of a `.pt2` archive: which entry holds which weight or constant, with its layout.
// Used by pt2_model.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontend/pt2/zip_archive.h"
#include "compiler/ir/graph.h"

namespace piper::frontend::pt2 {

struct Payload {
  std::string path;  // name of the entry below its folder: "weight_3"; tied tensors share one
  bool is_parameter = false, requires_grad = false, is_pickled = false;
  bool is_meta = false;                 // of torch's meta device: it has no bytes, and `path` says nothing
  std::optional<DType> dtype;           // nullopt: one that piper does not have
  std::string dtype_name;               // "float16"
  std::vector<int64_t> sizes, strides;  // in elements
  int64_t offset = 0;                   // of the first element, in elements
  friend bool operator==(const Payload&, const Payload&) = default;
};

// torch's enumeration of element types, as the archive writes it: 7 is float32.
std::optional<DType> dtype_of_scalar_type(int64_t number);
std::string scalar_type_name(int64_t number);  // "float16", or "type 77" where unknown

// A `*_config.json`: name in the state dict -> payload. Error P0301: it is not what torch.export.save writes.
Result<std::map<std::string, Payload>> read_payload_config(std::string_view json);

// Where the tensor's bytes are: in the archive where they are stored there in row-major order, else
// in memory; nowhere for a parameter of the meta device. P0301: the entry is missing, too short or damaged, or a
// pickle.
Result<ir::WeightSource> payload_source(const ZipArchive& archive, const std::string& folder, const Payload& payload);

}  // namespace piper::frontend::pt2
