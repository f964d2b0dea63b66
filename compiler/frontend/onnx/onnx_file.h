// An ONNX model file as plain structs: opsets, inputs, value infos, initializers, nodes, metadata.
// Read by protozero over a memory map (files beyond 2 GB included), so that weights are never
// copied: an initializer says where its bytes are, in this file or in an external one.
// Both import routes and the fuzzer use it. It checks sizes, lengths and paths of everything it
// reads (code P0301), but knows no operator and no graph order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/frontend/fold.h"
#include "compiler/ir/graph.h"
#include "schemas/base/status.h"

namespace piper::frontend::onnx {

// metadata_props of a node, value or graph, in file order. They lie in OnnxFile::bytes: an exporter writes kilobytes
// for a node, and few are read.
struct Metadata {
  std::vector<std::pair<std::string_view, std::string_view>> entries;
  // The value of a key, or null.
  const std::string_view* find(std::string_view key) const;
};

struct OnnxDim {
  int64_t value = -1;  // -1: symbolic, or not given
  std::string symbol;  // dim_param: a name or an expression such as "24*B"
};

struct OnnxValueInfo {
  std::string name;
  bool is_tensor = false;
  int32_t elem_type = 0;  // ONNX TensorProto.DataType; 0 = not given
  bool has_shape = false;
  std::vector<OnnxDim> dims;
  Metadata metadata;
};

struct OnnxTensor {
  std::string name;
  int32_t elem_type = 0;
  std::vector<int64_t> dims;  // each >= 0
  int64_t elements = 0;
  // Exactly one of the three places holds the payload.
  enum class Place : uint8_t { kInFile, kDecoded, kExternal } place = Place::kDecoded;
  int64_t offset = 0;  // kInFile, kExternal: first byte
  int64_t bytes = 0;
  std::string external_path;  // kExternal: absolute or relative as the model's path is; checked to lie in its folder
  std::vector<std::byte> decoded;  // kDecoded: from int64_data, float_data, int32_data, double_data; row-major
  Metadata metadata;
};

struct OnnxAttribute {
  enum class Kind : uint8_t { kFloat, kInt, kString, kTensor, kFloats, kInts, kStrings, kOther };
  std::string name;
  Kind kind = Kind::kOther;  // kOther: graphs, sparse tensors, types, references
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<OnnxTensor> tensors;  // kTensor: one
};

struct OnnxNode {
  std::string name, op_type, domain;         // domain "" = the standard one ("ai.onnx" is read as "")
  std::vector<std::string> inputs, outputs;  // "" = absent
  std::vector<OnnxAttribute> attributes;
  Metadata metadata;
  const OnnxAttribute* find(std::string_view attribute) const;
};

struct OnnxOpset {
  std::string domain;
  int64_t version = 0;
};

// The bytes of the file: a map or a copy. Lives as long as the OnnxFile.
class FileBytes {
 public:
  virtual ~FileBytes() = default;
  virtual std::string_view view() const = 0;
};

struct OnnxFile {
  std::string path;  // as given; "" = read from memory
  int64_t ir_version = 0;
  std::string producer;
  std::vector<OnnxOpset> opsets;
  std::vector<OnnxValueInfo> inputs;  // without those that are initializers
  std::vector<OnnxValueInfo> outputs;
  std::vector<OnnxValueInfo> value_info;  // of inner values and of initializers
  std::vector<OnnxTensor> initializers;   // names are unique
  std::vector<OnnxNode> nodes;
  Metadata graph_metadata, model_metadata;
  std::unique_ptr<const FileBytes> bytes;

  int64_t opset_version() const;  // of the standard domain; 0 = not imported
};

// Maps and reads a file. P0301: it cannot be opened, is no ONNX model, or is damaged; the message
// says what is wrong and in which part.
Result<OnnxFile> read_onnx(const std::string& path);
// The same on bytes in memory (copied); external data is refused.
Result<OnnxFile> read_onnx_bytes(std::string_view bytes);

// The element type in the IR; nullopt where piper has none (FLOAT16, INT8, STRING, ...).
std::optional<DType> dtype_of(int32_t elem_type);
// "FLOAT16", or "type 77" where unknown.
std::string elem_type_name(int32_t elem_type);

// Where a tensor's bytes are, without reading them. P0301 where its element type has no DType.
Result<ir::WeightSource> weight_source(const OnnxFile& file, const OnnxTensor& tensor);
// A tensor's type and bytes, read into memory. P0301 as above, or the external file fails.
Result<ConstantTensor> tensor_value(const OnnxFile& file, const OnnxTensor& tensor);

}  // namespace piper::frontend::onnx
