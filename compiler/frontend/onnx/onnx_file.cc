#include "compiler/frontend/onnx/onnx_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_set>

#include <protozero/exception.hpp>

#include "compiler/frontend/onnx/wire.h"
#include "schemas/base/parallel.h"

namespace piper::frontend::onnx {
namespace {

using wire::append_entry;
using wire::append_floats;
using wire::append_ints;
using wire::damaged;
using wire::get_int;
using wire::get_message;
using wire::get_text;
using wire::in_quotes;
using wire::Message;
using wire::want_wire;

class MappedBytes : public FileBytes {
 public:
  MappedBytes(void* data, size_t size) : data_(data), size_(size) {}
  ~MappedBytes() override {
    if (data_ != nullptr) munmap(data_, size_);
  }
  std::string_view view() const override { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_;
  size_t size_;
};

class CopiedBytes : public FileBytes {
 public:
  explicit CopiedBytes(std::string_view bytes) : bytes_(bytes) {}
  std::string_view view() const override { return bytes_; }

 private:
  std::string bytes_;
};

// Reads one file's messages; knows the file's extent and folder for the checks of payloads.
class Reader {
 public:
  Reader(std::string_view bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}

  void read_model(OnnxFile& out) {
    Message<ModelField> m{protozero::data_view{bytes_.data(), bytes_.size()}};
    bool graph = false;
    while (m.next()) {
      switch (m.tag()) {
        case ModelField::kIrVersion: out.ir_version = get_int(m, "ir_version"); break;
        case ModelField::kProducerName: out.producer = get_text(m, "producer_name"); break;
        case ModelField::kGraph:
          if (graph) damaged("it holds two graphs");
          graph = true;
          read_graph(get_message<GraphField>(m, "the graph"), out);
          break;
        case ModelField::kOpsetImport:
          out.opsets.push_back(read_opset(get_message<OpsetField>(m, "an opset import")));
          break;
        case ModelField::kMetadataProps: append_entry(m, out.model_metadata); break;
        default: m.skip();
      }
    }
    if (!graph) damaged("it holds no graph");
    if (out.ir_version < 1) damaged("it has no ir_version");
    if (out.opset_version() < 1) damaged("it imports no opset of the standard domain");
    if (out.outputs.empty()) damaged("its graph has no output");
    std::unordered_set<std::string> names;
    for (const OnnxTensor& t : out.initializers)
      if (!names.insert(t.name).second) damaged("two initializers are named " + in_quotes(t.name));
    std::erase_if(out.inputs, [&](const OnnxValueInfo& v) { return names.count(v.name) > 0; });
  }

 private:
  OnnxOpset read_opset(Message<OpsetField> m) {
    OnnxOpset out;
    while (m.next()) {
      switch (m.tag()) {
        case OpsetField::kDomain: out.domain = get_text(m, "an opset's domain"); break;
        case OpsetField::kVersion: out.version = get_int(m, "an opset's version"); break;
        default: m.skip();
      }
    }
    if (out.domain == "ai.onnx") out.domain.clear();
    return out;
  }

  // Nodes and inner values, the bulk of the text, are read side by side once they have been found.
  void read_graph(Message<GraphField> m, OnnxFile& out) {
    std::vector<Message<NodeField>> nodes;
    std::vector<Message<ValueInfoField>> values;
    while (m.next()) {
      switch (m.tag()) {
        case GraphField::kNode: nodes.push_back(get_message<NodeField>(m, "a node")); break;
        case GraphField::kInitializer: {
          OnnxTensor t = wire::read_tensor(get_message<TensorField>(m, "an initializer"), bytes_, path_);
          if (t.name.empty()) damaged("an initializer has no name");
          out.initializers.push_back(std::move(t));
          break;
        }
        case GraphField::kInput:
          out.inputs.push_back(read_value_info(get_message<ValueInfoField>(m, "a graph input")));
          break;
        case GraphField::kOutput:
          out.outputs.push_back(read_value_info(get_message<ValueInfoField>(m, "a graph output")));
          break;
        case GraphField::kValueInfo: values.push_back(get_message<ValueInfoField>(m, "a value info")); break;
        case GraphField::kSparseInitializer: damaged("it holds sparse initializers, which piper does not read");
        case GraphField::kMetadataProps: append_entry(m, out.graph_metadata); break;
        default: m.skip();
      }
    }
    out.nodes.resize(nodes.size());
    out.value_info.resize(values.size());
    const size_t blocks_of_nodes = (nodes.size() + kBlock - 1) / kBlock,
                 blocks = blocks_of_nodes + (values.size() + kBlock - 1) / kBlock;
    parallel_for(blocks, [&](size_t block) {
      if (block < blocks_of_nodes) {
        for (size_t i = block * kBlock; i < std::min(nodes.size(), (block + 1) * kBlock); ++i)
          out.nodes[i] = read_node(nodes[i]);
      } else {
        block -= blocks_of_nodes;
        for (size_t i = block * kBlock; i < std::min(values.size(), (block + 1) * kBlock); ++i)
          out.value_info[i] = read_value_info(values[i]);
      }
    });
  }
  static constexpr size_t kBlock = 64;  // a tenth of a millisecond

  OnnxNode read_node(Message<NodeField> m) const {
    OnnxNode out;
    while (m.next()) {
      switch (m.tag()) {
        case NodeField::kInput: out.inputs.push_back(get_text(m, "a node's input")); break;
        case NodeField::kOutput: out.outputs.push_back(get_text(m, "a node's output")); break;
        case NodeField::kName: out.name = get_text(m, "a node's name"); break;
        case NodeField::kOpType: out.op_type = get_text(m, "a node's operator"); break;
        case NodeField::kDomain: out.domain = get_text(m, "a node's domain"); break;
        case NodeField::kAttribute:
          out.attributes.push_back(read_attribute(get_message<AttributeField>(m, "an attribute")));
          break;
        case NodeField::kMetadataProps: append_entry(m, out.metadata); break;
        default: m.skip();
      }
    }
    if (out.op_type.empty()) damaged("node " + in_quotes(out.name) + " names no operator");
    if (out.domain == "ai.onnx") out.domain.clear();
    return out;
  }

  OnnxAttribute read_attribute(Message<AttributeField> m) const {
    using Kind = OnnxAttribute::Kind;
    OnnxAttribute out;
    int64_t type = 0;
    Kind seen = Kind::kOther;
    bool other = false;
    while (m.next()) {
      switch (m.tag()) {
        case AttributeField::kName: out.name = get_text(m, "an attribute's name"); break;
        case AttributeField::kType: type = get_int(m, "an attribute's type"); break;
        case AttributeField::kF:
          want_wire(m, protozero::pbf_wire_type::fixed32, "a float attribute");
          out.f = m.get_float();
          seen = Kind::kFloat;
          break;
        case AttributeField::kI:
          out.i = get_int(m, "an integer attribute");
          seen = Kind::kInt;
          break;
        case AttributeField::kS:
          out.s = get_text(m, "a string attribute");
          seen = Kind::kString;
          break;
        case AttributeField::kT:
          out.tensors.assign(1, wire::read_tensor(get_message<TensorField>(m, "a tensor attribute"), bytes_, path_));
          seen = Kind::kTensor;
          break;
        case AttributeField::kFloats:
          append_floats(m, out.floats, "a float list");
          seen = Kind::kFloats;
          break;
        case AttributeField::kInts:
          append_ints(m, out.ints, "an integer list");
          seen = Kind::kInts;
          break;
        case AttributeField::kStrings:
          out.strings.push_back(get_text(m, "a string list"));
          seen = Kind::kStrings;
          break;
        case AttributeField::kRefAttrName:
          other = true;
          m.skip();
          break;
        default: m.skip();
      }
    }
    out.kind = other ? Kind::kOther : kind_of(type, seen);
    if (out.kind == Kind::kTensor && out.tensors.empty())
      damaged("the tensor attribute " + in_quotes(out.name) + " holds no tensor");
    return out;
  }

  static OnnxAttribute::Kind kind_of(int64_t type, OnnxAttribute::Kind seen) {
    using Kind = OnnxAttribute::Kind;
    using Code = AttributeTypeCode;
    if (type == static_cast<int64_t>(Code::kUndefined)) return seen;
    if (type == static_cast<int64_t>(Code::kFloat)) return Kind::kFloat;
    if (type == static_cast<int64_t>(Code::kInt)) return Kind::kInt;
    if (type == static_cast<int64_t>(Code::kString)) return Kind::kString;
    if (type == static_cast<int64_t>(Code::kTensor)) return Kind::kTensor;
    if (type == static_cast<int64_t>(Code::kFloats)) return Kind::kFloats;
    if (type == static_cast<int64_t>(Code::kInts)) return Kind::kInts;
    if (type == static_cast<int64_t>(Code::kStrings)) return Kind::kStrings;
    return Kind::kOther;
  }

  static OnnxValueInfo read_value_info(Message<ValueInfoField> m) {
    OnnxValueInfo out;
    while (m.next()) {
      switch (m.tag()) {
        case ValueInfoField::kName: out.name = get_text(m, "a value's name"); break;
        case ValueInfoField::kType: {
          Message<TypeField> type = get_message<TypeField>(m, "a value's type");
          while (type.next()) {
            if (type.tag() == TypeField::kTensorType)
              read_tensor_type(get_message<TensorTypeField>(type, "a tensor type"), out);
            else type.skip();
          }
          break;
        }
        case ValueInfoField::kMetadataProps: append_entry(m, out.metadata); break;
        default: m.skip();
      }
    }
    return out;
  }

  static void read_tensor_type(Message<TensorTypeField> m, OnnxValueInfo& out) {
    out.is_tensor = true;
    while (m.next()) {
      switch (m.tag()) {
        case TensorTypeField::kElemType: out.elem_type = static_cast<int32_t>(get_int(m, "an element type")); break;
        case TensorTypeField::kShape: {
          out.has_shape = true;
          Message<ShapeField> shape = get_message<ShapeField>(m, "a shape");
          while (shape.next()) {
            if (shape.tag() == ShapeField::kDim)
              out.dims.push_back(read_dim(get_message<DimField>(shape, "a dimension"), out.name));
            else shape.skip();
          }
          break;
        }
        default: m.skip();
      }
    }
    if (static_cast<int64_t>(out.dims.size()) > wire::kMaxRank)
      damaged("the value " + in_quotes(out.name) + " has " + std::to_string(out.dims.size()) + " axes");
  }

  static OnnxDim read_dim(Message<DimField> m, const std::string& name) {
    OnnxDim out;
    while (m.next()) {
      switch (m.tag()) {
        case DimField::kDimValue:
          out.value = get_int(m, "an extent");
          if (out.value < 0) damaged("the value " + in_quotes(name) + " has a negative extent");
          break;
        case DimField::kDimParam: out.symbol = get_text(m, "a symbolic extent"); break;
        default: m.skip();
      }
    }
    if (!out.symbol.empty()) out.value = -1;
    return out;
  }

  std::string_view bytes_;
  std::string path_;
};

Result<OnnxFile> read_from(std::unique_ptr<const FileBytes> bytes, const std::string& path) {
  const std::string shown = path.empty() ? std::string("the model") : path;
  OnnxFile out;
  out.path = path;
  try {
    Reader(bytes->view(), path).read_model(out);
  } catch (const wire::Damage& e) {
    return Status::failure("P0301", shown + " is not a readable ONNX model: " + e.what());
  } catch (const protozero::exception& e) {
    return Status::failure("P0301", shown + " is not a readable ONNX model: damaged or truncated (" + e.what() + ")");
  }
  out.bytes = std::move(bytes);
  return out;
}

}  // namespace

const std::string_view* Metadata::find(std::string_view key) const {
  for (const auto& [k, v] : entries)
    if (k == key) return &v;
  return nullptr;
}

const OnnxAttribute* OnnxNode::find(std::string_view attribute) const {
  for (const OnnxAttribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

int64_t OnnxFile::opset_version() const {
  for (const OnnxOpset& o : opsets)
    if (o.domain.empty()) return o.version;
  return 0;
}

Result<OnnxFile> read_onnx(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::failure("P0301", "cannot open " + path + ": " + std::strerror(errno));
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    close(fd);
    return Status::failure("P0301", path + " is not a readable ONNX model: it is empty or no regular file");
  }
  const size_t size = static_cast<size_t>(info.st_size);
  // A file without much in it but text is read from end to end: its pages are mapped at once.
  constexpr size_t kMostlyText = size_t{32} << 20;
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | (size <= kMostlyText ? MAP_POPULATE : 0), fd, 0);
  close(fd);
  if (data == MAP_FAILED) return Status::failure("P0301", "cannot map " + path + ": " + std::strerror(errno));
  return read_from(std::make_unique<MappedBytes>(data, size), path);
}

Result<OnnxFile> read_onnx_bytes(std::string_view bytes) { return read_from(std::make_unique<CopiedBytes>(bytes), ""); }

std::optional<DType> dtype_of(int32_t elem_type) {
  if (elem_type == static_cast<int32_t>(ElemCode::kFloat)) return DType::kF32;
  if (elem_type == static_cast<int32_t>(ElemCode::kDouble)) return DType::kF64;
  if (elem_type == static_cast<int32_t>(ElemCode::kBfloat16)) return DType::kBF16;
  if (elem_type == static_cast<int32_t>(ElemCode::kInt64)) return DType::kI64;
  if (elem_type == static_cast<int32_t>(ElemCode::kInt32)) return DType::kI32;
  if (elem_type == static_cast<int32_t>(ElemCode::kBool)) return DType::kBool;
  return std::nullopt;
}

std::string elem_type_name(int32_t elem_type) {
  static constexpr const char* kNames[] = {
      "UNDEFINED", "FLOAT",      "UINT8",      "INT8",         "UINT16",         "INT16",      "INT32",
      "INT64",     "STRING",     "BOOL",       "FLOAT16",      "DOUBLE",         "UINT32",     "UINT64",
      "COMPLEX64", "COMPLEX128", "BFLOAT16",   "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
      "UINT4",     "INT4",       "FLOAT4E2M1", "FLOAT8E8M0"};
  if (elem_type >= 0 && elem_type < static_cast<int32_t>(std::size(kNames))) return kNames[elem_type];
  return "type " + std::to_string(elem_type);
}

Result<ir::WeightSource> weight_source(const OnnxFile& file, const OnnxTensor& tensor) {
  if (!dtype_of(tensor.elem_type))
    return Status::failure("P0301", "the tensor " + in_quotes(tensor.name) + " has elements of type " +
                                        elem_type_name(tensor.elem_type) +
                                        "; piper reads FLOAT, DOUBLE, BFLOAT16, INT64, INT32 and BOOL");
  ir::WeightSource out;
  out.bytes = tensor.bytes;
  switch (tensor.place) {
    case OnnxTensor::Place::kExternal:
      out.file = tensor.external_path;
      out.offset = tensor.offset;
      break;
    case OnnxTensor::Place::kInFile:
      if (!file.path.empty()) {
        out.file = file.path;
        out.offset = tensor.offset;
      } else {
        const std::string_view view = file.bytes->view().substr(tensor.offset, tensor.bytes);
        const auto* first = reinterpret_cast<const std::byte*>(view.data());
        out.data = std::make_shared<const std::vector<std::byte>>(first, first + view.size());
      }
      break;
    case OnnxTensor::Place::kDecoded: out.data = std::make_shared<const std::vector<std::byte>>(tensor.decoded); break;
  }
  return out;
}

Result<ConstantTensor> tensor_value(const OnnxFile& file, const OnnxTensor& tensor) {
  PIPER_ASSIGN(const ir::WeightSource source, weight_source(file, tensor));
  std::vector<std::byte> bytes;
  if (source.data) {
    bytes = *source.data;
  } else if (tensor.place == OnnxTensor::Place::kInFile) {
    const auto* first = reinterpret_cast<const std::byte*>(file.bytes->view().data()) + tensor.offset;
    bytes.assign(first, first + tensor.bytes);
  } else {
    bytes.resize(static_cast<size_t>(tensor.bytes));
    std::ifstream in(source.file, std::ios::binary);
    in.seekg(source.offset);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!in)
      return Status::failure("P0301", "cannot read the tensor " + in_quotes(tensor.name) + " from " + source.file);
  }
  const DType dtype = *dtype_of(tensor.elem_type);
  if (dtype == DType::kBool)
    for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  return ConstantTensor({dtype, tensor.dims}, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
}

}  // namespace piper::frontend::onnx
