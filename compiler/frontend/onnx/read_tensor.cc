// Tensors of ONNX files: their payload in the file, typed, or in a file beside it.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "compiler/frontend/onnx/wire.h"

namespace piper::frontend::onnx::wire {
namespace {

// Bytes of one element of an ONNX type; 0 where elements are no whole bytes or unknown.
int64_t elem_bytes(int32_t elem_type) {
  switch (elem_type) {
    case 1:
    case 6:
    case 12: return 4;
    case 2:
    case 3:
    case 9:
    case 17:
    case 18:
    case 19:
    case 20:
    case 24: return 1;
    case 4:
    case 5:
    case 10:
    case 16: return 2;
    case 7:
    case 11:
    case 13:
    case 14: return 8;
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

// What a TensorProto's data fields held.
struct Payload {
  bool raw = false;
  protozero::data_view raw_view;
  std::vector<int64_t> ints;  // int64_data and int32_data
  std::vector<float> floats;
  std::vector<double> doubles;
  bool int32 = false, int64 = false, other = false, external = false;
  std::vector<std::pair<std::string_view, std::string_view>> external_entries;
};

void count_elements(OnnxTensor& t) {
  if (static_cast<int64_t>(t.dims.size()) > kMaxRank)
    damaged("the tensor " + in_quotes(t.name) + " has " + std::to_string(t.dims.size()) + " axes");
  int64_t n = 1;
  bool empty = false;
  for (const int64_t d : t.dims) {
    if (d < 0) damaged("the tensor " + in_quotes(t.name) + " has a negative extent");
    empty = empty || d == 0;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(n, std::max<int64_t>(d, 1), &n) || __builtin_mul_overflow(n, int64_t{16}, &bytes))
      damaged("the shape of tensor " + in_quotes(t.name) + " overflows");
  }
  t.elements = empty ? 0 : n;
}

void decode(OnnxTensor& t, const Payload& p) {
  t.place = OnnxTensor::Place::kDecoded;
  const std::optional<DType> dtype = dtype_of(t.elem_type);
  if (!dtype || p.other) {
    if (t.elem_type < 1 || t.elem_type > 28)
      damaged("the tensor " + in_quotes(t.name) + " has no known element type (" + std::to_string(t.elem_type) + ")");
    if (dtype) damaged("the tensor " + in_quotes(t.name) + " has data of another element type than its own");
    return;  // refused where it is used, under its name
  }
  size_t count = 0;
  switch (*dtype) {
    case DType::kF32:
      count = p.floats.size();
      t.decoded = as_bytes<float>(p.floats);
      break;
    case DType::kF64:
      count = p.doubles.size();
      t.decoded = as_bytes<double>(p.doubles);
      break;
    case DType::kI64:
      count = p.int64 && !p.int32 ? p.ints.size() : 0;
      t.decoded = as_bytes<int64_t>(p.ints);
      break;
    case DType::kI32:
      count = p.int32 && !p.int64 ? p.ints.size() : 0;
      t.decoded = as_bytes<int32_t>(p.ints);
      break;
    case DType::kBF16:
    case DType::kF16:
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

int64_t parse_count(std::string_view digits, const std::string& tensor) {
  int64_t v = 0;
  if (digits.empty() || digits.size() > 18)
    damaged("the external data of " + in_quotes(tensor) + " has a broken offset or length");
  for (const char c : digits) {
    if (c < '0' || c > '9') damaged("the external data of " + in_quotes(tensor) + " has a broken offset or length");
    v = v * 10 + (c - '0');
  }
  return v;
}

void place_external(OnnxTensor& t, const Payload& p, const std::string& path) {
  namespace fs = std::filesystem;
  t.place = OnnxTensor::Place::kExternal;
  std::string location;
  t.bytes = -1;
  for (const auto& [key, value] : p.external_entries) {
    if (key == "location") location = value;
    if (key == "offset") t.offset = parse_count(value, t.name);
    if (key == "length") t.bytes = parse_count(value, t.name);
  }
  if (path.empty()) damaged("the tensor " + in_quotes(t.name) + " is stored outside the model");
  const fs::path relative = fs::path(location).lexically_normal();
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() ||
      *relative.begin() == "..")
    damaged("the external data of " + in_quotes(t.name) + " is at " + in_quotes(location) +
            ", outside the model's folder");
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  const fs::path whole = folder / relative;
  std::error_code error;
  const fs::path real = fs::weakly_canonical(whole, error);
  const fs::path real_folder = error ? fs::path() : fs::weakly_canonical(folder, error);
  if (error || real.lexically_relative(real_folder).empty() || *real.lexically_relative(real_folder).begin() == "..")
    damaged("the external data of " + in_quotes(t.name) + " is at " + in_quotes(location) +
            ", outside the model's folder");
  const uintmax_t size = fs::is_regular_file(real, error) ? fs::file_size(real, error) : 0;
  if (error || !fs::is_regular_file(real, error))
    damaged("the file " + in_quotes(location) + " with the data of " + in_quotes(t.name) + " is not there");
  const int64_t width = elem_bytes(t.elem_type);
  if (t.bytes < 0) t.bytes = width > 0 ? t.elements * width : static_cast<int64_t>(size) - t.offset;
  if (width > 0 && t.bytes != t.elements * width)
    damaged("the tensor " + in_quotes(t.name) + " has " + std::to_string(t.bytes) +
            " bytes of data where its shape needs " + std::to_string(t.elements * width));
  if (t.offset > static_cast<int64_t>(size) || t.bytes > static_cast<int64_t>(size) - t.offset)
    damaged("the file " + in_quotes(location) + " is too short for the tensor " + in_quotes(t.name));
  t.external_path = whole.string();
}

}  // namespace

OnnxTensor read_tensor(Message<TensorField> m, std::string_view file, const std::string& path) {
  OnnxTensor out;
  Payload p;
  while (m.next()) {
    switch (m.tag()) {
      case TensorField::kDims: append_ints(m, out.dims, "a tensor's extents"); break;
      case TensorField::kDataType: out.elem_type = static_cast<int32_t>(get_int(m, "a tensor's type")); break;
      case TensorField::kName: out.name = get_text(m, "a tensor's name"); break;
      case TensorField::kFloatData: append_floats(m, p.floats, "float_data"); break;
      case TensorField::kInt32Data:
        append_ints(m, p.ints, "int32_data");
        p.int32 = true;
        break;
      case TensorField::kInt64Data:
        append_ints(m, p.ints, "int64_data");
        p.int64 = true;
        break;
      case TensorField::kDoubleData: append_doubles(m, p.doubles, "double_data"); break;
      case TensorField::kRawData:
        want_wire(m, protozero::pbf_wire_type::length_delimited, "raw_data");
        p.raw = true;
        p.raw_view = m.get_view();
        break;
      case TensorField::kStringData:
      case TensorField::kUint64Data:
        p.other = true;
        m.skip();
        break;
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
    place_external(out, p, path);
  } else if (p.raw) {
    out.place = OnnxTensor::Place::kInFile;
    out.offset = p.raw_view.data() - file.data();
    out.bytes = static_cast<int64_t>(p.raw_view.size());
    const int64_t width = elem_bytes(out.elem_type);
    if (width > 0 && out.bytes != out.elements * width)
      damaged("the tensor " + in_quotes(out.name) + " has " + std::to_string(out.bytes) +
              " bytes of data where its shape needs " + std::to_string(out.elements * width));
  } else {
    decode(out, p);
  }
  return out;
}

}  // namespace piper::frontend::onnx::wire
