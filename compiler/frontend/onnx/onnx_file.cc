#include "compiler/frontend/onnx/onnx_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <unordered_set>

#include <protozero/exception.hpp>
#include <protozero/pbf_message.hpp>

#include "compiler/frontend/onnx/onnx_fields.h"

namespace piper::frontend::onnx {
namespace {

constexpr int64_t kMaxRank = 64;

// What is wrong with a file; leaves this file only as a Status.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void damaged(const std::string& what) { throw Damage(what); }

std::string in_quotes(const std::string& name) { return "'" + name.substr(0, 200) + "'"; }

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

template <class Field>
using Message = protozero::pbf_message<Field>;

template <class Field>
std::string text(Message<Field>& m) {
  const protozero::data_view v = m.get_view();
  return {v.data(), v.size()};
}

template <class Field>
void want_wire(const Message<Field>& m, protozero::pbf_wire_type type, const char* what) {
  if (m.wire_type() != type) damaged(std::string(what) + " has the wrong wire type");
}

template <class Field>
std::string get_text(Message<Field>& m, const char* what) {
  want_wire(m, protozero::pbf_wire_type::length_delimited, what);
  return text(m);
}
template <class Field>
int64_t get_int(Message<Field>& m, const char* what) {
  want_wire(m, protozero::pbf_wire_type::varint, what);
  return m.get_int64();
}
template <class Sub, class Field>
Message<Sub> get_message(Message<Field>& m, const char* what) {
  want_wire(m, protozero::pbf_wire_type::length_delimited, what);
  return Message<Sub>{m.get_view()};
}

// Repeated numbers stand packed or one by one.
template <class Field>
void append_ints(Message<Field>& m, std::vector<int64_t>& out, const char* what) {
  if (m.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const int64_t v : m.get_packed_int64()) out.push_back(v);
  } else {
    out.push_back(get_int(m, what));
  }
}
template <class Field>
void append_floats(Message<Field>& m, std::vector<float>& out, const char* what) {
  if (m.wire_type() == protozero::pbf_wire_type::length_delimited) {
    const protozero::data_view v = m.get_view();
    if (v.size() % sizeof(float) != 0) damaged(std::string(what) + " is no whole number of floats");
    const size_t first = out.size();
    out.resize(first + v.size() / sizeof(float));
    if (v.size() > 0) std::memcpy(out.data() + first, v.data(), v.size());
  } else {
    want_wire(m, protozero::pbf_wire_type::fixed32, what);
    out.push_back(m.get_float());
  }
}
template <class Field>
void append_doubles(Message<Field>& m, std::vector<double>& out, const char* what) {
  if (m.wire_type() == protozero::pbf_wire_type::length_delimited) {
    const protozero::data_view v = m.get_view();
    if (v.size() % sizeof(double) != 0) damaged(std::string(what) + " is no whole number of doubles");
    const size_t first = out.size();
    out.resize(first + v.size() / sizeof(double));
    if (v.size() > 0) std::memcpy(out.data() + first, v.data(), v.size());
  } else {
    want_wire(m, protozero::pbf_wire_type::fixed64, what);
    out.push_back(m.get_double());
  }
}

std::pair<std::string, std::string> read_entry(Message<EntryField> m) {
  std::pair<std::string, std::string> entry;
  while (m.next()) {
    switch (m.tag()) {
      case EntryField::kKey: entry.first = get_text(m, "a metadata key"); break;
      case EntryField::kValue: entry.second = get_text(m, "a metadata value"); break;
      default: m.skip();
    }
  }
  return entry;
}

template <class Field>
void append_entry(Message<Field>& m, Metadata& out) {
  out.entries.push_back(read_entry(get_message<EntryField>(m, "a metadata entry")));
}

// Bytes of one element of an ONNX type; 0 where elements are no whole bytes or unknown.
int64_t elem_bytes(int32_t elem_type) {
  switch (elem_type) {
    case 1: case 6: case 12: return 4;
    case 2: case 3: case 9: case 17: case 18: case 19: case 20: case 24: return 1;
    case 4: case 5: case 10: case 16: return 2;
    case 7: case 11: case 13: case 14: return 8;
    case 15: return 16;
    default: return 0;
  }
}

template <class To, class From>
std::vector<std::byte> as_bytes(const std::vector<From>& values) {
  std::vector<std::byte> out(values.size() * sizeof(To));
  for (size_t i = 0; i < values.size(); ++i) {
    const To v = static_cast<To>(values[i]);
    std::memcpy(out.data() + i * sizeof(To), &v, sizeof(To));
  }
  return out;
}

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

  void read_graph(Message<GraphField> m, OnnxFile& out) {
    while (m.next()) {
      switch (m.tag()) {
        case GraphField::kNode: out.nodes.push_back(read_node(get_message<NodeField>(m, "a node"))); break;
        case GraphField::kInitializer: {
          OnnxTensor t = read_tensor(get_message<TensorField>(m, "an initializer"));
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
        case GraphField::kValueInfo:
          out.value_info.push_back(read_value_info(get_message<ValueInfoField>(m, "a value info")));
          break;
        case GraphField::kSparseInitializer: damaged("it holds sparse initializers, which piper does not read");
        case GraphField::kMetadataProps: append_entry(m, out.graph_metadata); break;
        default: m.skip();
      }
    }
  }

  OnnxNode read_node(Message<NodeField> m) {
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

  OnnxAttribute read_attribute(Message<AttributeField> m) {
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
        case AttributeField::kI: out.i = get_int(m, "an integer attribute"); seen = Kind::kInt; break;
        case AttributeField::kS: out.s = get_text(m, "a string attribute"); seen = Kind::kString; break;
        case AttributeField::kT:
          out.tensors.assign(1, read_tensor(get_message<TensorField>(m, "a tensor attribute")));
          seen = Kind::kTensor;
          break;
        case AttributeField::kFloats: append_floats(m, out.floats, "a float list"); seen = Kind::kFloats; break;
        case AttributeField::kInts: append_ints(m, out.ints, "an integer list"); seen = Kind::kInts; break;
        case AttributeField::kStrings:
          out.strings.push_back(get_text(m, "a string list"));
          seen = Kind::kStrings;
          break;
        case AttributeField::kRefAttrName: other = true; m.skip(); break;
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

  OnnxValueInfo read_value_info(Message<ValueInfoField> m) {
    OnnxValueInfo out;
    while (m.next()) {
      switch (m.tag()) {
        case ValueInfoField::kName: out.name = get_text(m, "a value's name"); break;
        case ValueInfoField::kType: {
          Message<TypeField> type = get_message<TypeField>(m, "a value's type");
          while (type.next()) {
            if (type.tag() == TypeField::kTensorType)
              read_tensor_type(get_message<TensorTypeField>(type, "a tensor type"), out);
            else
              type.skip();
          }
          break;
        }
        case ValueInfoField::kMetadataProps: append_entry(m, out.metadata); break;
        default: m.skip();
      }
    }
    return out;
  }

  void read_tensor_type(Message<TensorTypeField> m, OnnxValueInfo& out) {
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
            else
              shape.skip();
          }
          break;
        }
        default: m.skip();
      }
    }
    if (static_cast<int64_t>(out.dims.size()) > kMaxRank)
      damaged("the value " + in_quotes(out.name) + " has " + std::to_string(out.dims.size()) + " axes");
  }

  OnnxDim read_dim(Message<DimField> m, const std::string& name) {
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

  struct Payload {
    bool raw = false;
    protozero::data_view raw_view;
    std::vector<int64_t> ints;      // int64_data and int32_data
    std::vector<float> floats;
    std::vector<double> doubles;
    bool int32 = false, int64 = false, other = false, external = false;
    std::vector<std::pair<std::string, std::string>> external_entries;
  };

  OnnxTensor read_tensor(Message<TensorField> m) {
    OnnxTensor out;
    Payload p;
    while (m.next()) {
      switch (m.tag()) {
        case TensorField::kDims: append_ints(m, out.dims, "a tensor's extents"); break;
        case TensorField::kDataType: out.elem_type = static_cast<int32_t>(get_int(m, "a tensor's type")); break;
        case TensorField::kName: out.name = get_text(m, "a tensor's name"); break;
        case TensorField::kFloatData: append_floats(m, p.floats, "float_data"); break;
        case TensorField::kInt32Data: append_ints(m, p.ints, "int32_data"); p.int32 = true; break;
        case TensorField::kInt64Data: append_ints(m, p.ints, "int64_data"); p.int64 = true; break;
        case TensorField::kDoubleData: append_doubles(m, p.doubles, "double_data"); break;
        case TensorField::kRawData:
          want_wire(m, protozero::pbf_wire_type::length_delimited, "raw_data");
          p.raw = true;
          p.raw_view = m.get_view();
          break;
        case TensorField::kStringData:
        case TensorField::kUint64Data: p.other = true; m.skip(); break;
        case TensorField::kSegment: damaged("a tensor is stored in segments, which piper does not read");
        case TensorField::kExternalData:
          p.external_entries.push_back(read_entry(get_message<EntryField>(m, "external_data")));
          break;
        case TensorField::kDataLocation: p.external = get_int(m, "data_location") == 1; break;
        case TensorField::kMetadataProps: append_entry(m, out.metadata); break;
        default: m.skip();
      }
    }
    count_elements(out);
    if (p.external) {
      place_external(out, p);
    } else if (p.raw) {
      out.place = OnnxTensor::Place::kInFile;
      out.offset = p.raw_view.data() - bytes_.data();
      out.bytes = static_cast<int64_t>(p.raw_view.size());
      const int64_t width = elem_bytes(out.elem_type);
      if (width > 0 && out.bytes != out.elements * width)
        damaged("the tensor " + in_quotes(out.name) + " has " + std::to_string(out.bytes) + " bytes of data where its shape needs " +
                std::to_string(out.elements * width));
    } else {
      decode(out, p);
    }
    return out;
  }

  static void count_elements(OnnxTensor& t) {
    if (static_cast<int64_t>(t.dims.size()) > kMaxRank)
      damaged("the tensor " + in_quotes(t.name) + " has " + std::to_string(t.dims.size()) + " axes");
    int64_t n = 1;
    for (const int64_t d : t.dims) {
      if (d < 0) damaged("the tensor " + in_quotes(t.name) + " has a negative extent");
      if (d == 0) {
        t.elements = 0;
        return;
      }
      int64_t bytes = 0;
      if (__builtin_mul_overflow(n, d, &n) || __builtin_mul_overflow(n, int64_t{16}, &bytes))
        damaged("the shape of tensor " + in_quotes(t.name) + " overflows");
    }
    t.elements = n;
  }

  static void decode(OnnxTensor& t, const Payload& p) {
    t.place = OnnxTensor::Place::kDecoded;
    const std::optional<DType> dtype = dtype_of(t.elem_type);
    if (!dtype || p.other) {
      if (t.elem_type < 1 || t.elem_type > 28)
        damaged("the tensor " + in_quotes(t.name) + " has no known element type (" + std::to_string(t.elem_type) + ")");
      return;  // refused where it is used, under its name
    }
    size_t count = 0;
    switch (*dtype) {
      case DType::kF32: count = p.floats.size(); t.decoded = as_bytes<float>(p.floats); break;
      case DType::kF64: count = p.doubles.size(); t.decoded = as_bytes<double>(p.doubles); break;
      case DType::kI64:
        count = p.int64 && !p.int32 ? p.ints.size() : 0;
        t.decoded = as_bytes<int64_t>(p.ints);
        break;
      case DType::kI32:
        count = p.int32 && !p.int64 ? p.ints.size() : 0;
        t.decoded = as_bytes<int32_t>(p.ints);
        break;
      case DType::kBF16:
        count = p.int32 && !p.int64 ? p.ints.size() : 0;
        t.decoded = as_bytes<uint16_t>(p.ints);
        break;
      case DType::kBool:
        count = p.int32 && !p.int64 ? p.ints.size() : 0;
        t.decoded = as_bytes<uint8_t>(p.ints);
        break;
    }
    if (static_cast<int64_t>(count) != t.elements)
      damaged("the tensor " + in_quotes(t.name) + " has " + std::to_string(count) + " values where its shape needs " +
              std::to_string(t.elements));
    t.bytes = static_cast<int64_t>(t.decoded.size());
  }

  static int64_t parse_count(const std::string& digits, const std::string& tensor) {
    int64_t v = 0;
    if (digits.empty() || digits.size() > 18) damaged("the external data of " + in_quotes(tensor) + " has a broken offset or length");
    for (const char c : digits) {
      if (c < '0' || c > '9') damaged("the external data of " + in_quotes(tensor) + " has a broken offset or length");
      v = v * 10 + (c - '0');
    }
    return v;
  }

  void place_external(OnnxTensor& t, const Payload& p) {
    namespace fs = std::filesystem;
    t.place = OnnxTensor::Place::kExternal;
    std::string location;
    t.bytes = -1;
    for (const auto& [key, value] : p.external_entries) {
      if (key == "location") location = value;
      if (key == "offset") t.offset = parse_count(value, t.name);
      if (key == "length") t.bytes = parse_count(value, t.name);
    }
    if (path_.empty()) damaged("the tensor " + in_quotes(t.name) + " is stored outside the model");
    const fs::path relative = fs::path(location).lexically_normal();
    if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() || *relative.begin() == "..")
      damaged("the external data of " + in_quotes(t.name) + " is at " + in_quotes(location) + ", outside the model's folder");
    const fs::path folder = fs::path(path_).has_parent_path() ? fs::path(path_).parent_path() : fs::path(".");
    const fs::path whole = folder / relative;
    std::error_code error;
    const fs::path real = fs::weakly_canonical(whole, error);
    const fs::path real_folder = error ? fs::path() : fs::weakly_canonical(folder, error);
    if (error || real.lexically_relative(real_folder).empty() || *real.lexically_relative(real_folder).begin() == "..")
      damaged("the external data of " + in_quotes(t.name) + " is at " + in_quotes(location) + ", outside the model's folder");
    const uintmax_t size = fs::is_regular_file(real, error) ? fs::file_size(real, error) : 0;
    if (error || !fs::is_regular_file(real, error))
      damaged("the file " + in_quotes(location) + " with the data of " + in_quotes(t.name) + " is not there");
    const int64_t width = elem_bytes(t.elem_type);
    if (t.bytes < 0) t.bytes = width > 0 ? t.elements * width : static_cast<int64_t>(size) - t.offset;
    if (width > 0 && t.bytes != t.elements * width)
      damaged("the tensor " + in_quotes(t.name) + " has " + std::to_string(t.bytes) + " bytes of data where its shape needs " +
              std::to_string(t.elements * width));
    if (t.offset > static_cast<int64_t>(size) || t.bytes > static_cast<int64_t>(size) - t.offset)
      damaged("the file " + in_quotes(location) + " is too short for the tensor " + in_quotes(t.name));
    t.external_path = whole.string();
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
  } catch (const Damage& e) {
    return Status::failure("P0301", shown + " is no readable ONNX model: " + e.what());
  } catch (const protozero::exception& e) {
    return Status::failure("P0301", shown + " is no readable ONNX model: damaged or cut off (" + e.what() + ")");
  }
  out.bytes = std::move(bytes);
  return out;
}

}  // namespace

const std::string* Metadata::find(std::string_view key) const {
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
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    close(fd);
    return Status::failure("P0301", path + " is no readable ONNX model: it is empty or no regular file");
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (data == MAP_FAILED) return Status::failure("P0301", "cannot map " + path + ": " + std::strerror(errno));
  return read_from(std::make_unique<MappedBytes>(data, size), path);
}

Result<OnnxFile> read_onnx_bytes(std::string_view bytes) {
  return read_from(std::make_unique<CopiedBytes>(bytes), "");
}

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
      "UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL",
      "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN",
      "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1", "FLOAT8E8M0"};
  if (elem_type >= 0 && elem_type < static_cast<int32_t>(std::size(kNames))) return kNames[elem_type];
  return "type " + std::to_string(elem_type);
}

Result<ir::WeightSource> weight_source(const OnnxFile& file, const OnnxTensor& tensor) {
  if (!dtype_of(tensor.elem_type))
    return Status::failure("P0301", "the tensor " + in_quotes(tensor.name) + " has elements of type " + elem_type_name(tensor.elem_type) +
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
    case OnnxTensor::Place::kDecoded:
      out.data = std::make_shared<const std::vector<std::byte>>(tensor.decoded);
      break;
  }
  return out;
}

Result<ConstantTensor> tensor_value(const OnnxFile& file, const OnnxTensor& tensor) {
  PIPER_ASSIGN(const ir::WeightSource source, weight_source(file, tensor));
  ConstantTensor out;
  out.type = {*dtype_of(tensor.elem_type), tensor.dims};
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
    if (!in) return Status::failure("P0301", "cannot read the tensor " + in_quotes(tensor.name) + " from " + source.file);
  }
  if (out.type.dtype == DType::kBool)
    for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  out.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return out;
}

}  // namespace piper::frontend::onnx
