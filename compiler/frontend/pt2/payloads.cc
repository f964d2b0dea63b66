#include "compiler/frontend/pt2/payloads.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "compiler/frontend/pt2/json_integer.h"

namespace piper::frontend::pt2 {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostStoredElements = int64_t{1} << 46;

Result<int64_t> known_extent(const Json& extent) {
  if (!extent.contains("as_int")) return Status::failure("P0301", "a stored tensor has a symbolic extent");
  const int64_t v = integer(extent.at("as_int"));
  if (v < 0 || v > kMostStoredElements)
    return Status::failure("P0301", "a stored tensor has an extent of " + std::to_string(v));
  return v;
}

Result<Payload> read_payload(const Json& entry) {
  Payload out;
  out.path = entry.at("path_name").get<std::string>();
  out.is_parameter = entry.at("is_param").get<bool>();
  out.is_pickled = entry.at("use_pickle").get<bool>();
  if (!entry.contains("tensor_meta") || entry.at("tensor_meta").is_null()) return out;
  const Json& meta = entry.at("tensor_meta");
  out.requires_grad = meta.at("requires_grad").get<bool>();
  if (meta.contains("device") && meta.at("device").contains("type"))
    out.is_meta = meta.at("device").at("type").get<std::string>() == "meta";
  out.dtype = dtype_of_scalar_type(integer(meta.at("dtype")));
  out.dtype_name = scalar_type_name(integer(meta.at("dtype")));
  for (const Json& x : meta.at("sizes")) {
    PIPER_ASSIGN(const int64_t v, known_extent(x));
    out.sizes.push_back(v);
  }
  for (const Json& x : meta.at("strides")) {
    PIPER_ASSIGN(const int64_t v, known_extent(x));
    out.strides.push_back(v);
  }
  PIPER_ASSIGN(out.offset, known_extent(meta.at("storage_offset")));
  if (out.strides.size() != out.sizes.size())
    return Status::failure("P0301", "a stored tensor has " + std::to_string(out.sizes.size()) + " extents and " +
                                        std::to_string(out.strides.size()) + " strides");
  return out;
}

bool is_row_major(const Payload& p) {
  int64_t stride = 1;
  for (size_t d = p.sizes.size(); d-- > 0;) {
    if (p.sizes[d] != 1 && p.strides[d] != stride) return false;
    stride *= p.sizes[d];
  }
  return true;
}

// Elements in row-major order.
std::vector<std::byte> gathered(const std::vector<std::byte>& storage, const Payload& p, int64_t elements,
                                size_t width) {
  std::vector<std::byte> out(static_cast<size_t>(elements) * width);
  std::vector<int64_t> index(p.sizes.size(), 0);
  int64_t at = p.offset;
  for (size_t i = 0; i < static_cast<size_t>(elements); ++i) {
    std::memcpy(out.data() + i * width, storage.data() + static_cast<size_t>(at) * width, width);
    for (size_t d = p.sizes.size(); d-- > 0;) {
      at += p.strides[d];
      if (++index[d] < p.sizes[d]) break;
      at -= p.strides[d] * p.sizes[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

std::optional<DType> dtype_of_scalar_type(int64_t number) {
  switch (number) {
    case 4: return DType::kI32;
    case 5: return DType::kI64;
    case 7: return DType::kF32;
    case 8: return DType::kF64;
    case 12: return DType::kBool;
    case 13: return DType::kBF16;
    default: return std::nullopt;
  }
}

std::string scalar_type_name(int64_t number) {
  constexpr const char* kNames[] = {"unknown", "uint8",   "int8",      "int16",     "int32",      "int64", "float16",
                                    "float32", "float64", "complex32", "complex64", "complex128", "bool",  "bfloat16"};
  if (number >= 0 && number < static_cast<int64_t>(std::size(kNames))) return kNames[number];
  return "type " + std::to_string(number);
}

Result<std::map<std::string, Payload>> read_payload_config(std::string_view json) {
  try {
    std::map<std::string, Payload> out;
    const Json config = Json::parse(json);
    for (const auto& [name, entry] : config.at("config").items()) {
      PIPER_ASSIGN(Payload payload, read_payload(entry));
      out.emplace(name, std::move(payload));
    }
    return out;
  } catch (const Json::exception& e) {
    return Status::failure("P0301", std::string("it is not what torch.export.save writes: ") + e.what());
  }
}

Result<ir::WeightSource> payload_source(const ZipArchive& archive, const std::string& folder, const Payload& payload) {
  if (payload.is_pickled)
    return Status::failure("P0301", "it is a tensor subclass, stored as a Python pickle, which piper does not read");
  if (!payload.dtype)
    return Status::failure("P0301",
                           "its element type " + payload.dtype_name +
                               " is not supported; piper has float32, float64, bfloat16, int64, int32 and bool");
  if (payload.is_meta) return ir::WeightSource();
  const std::string name = folder + payload.path;
  const ZipEntry* entry = archive.find(name);
  if (entry == nullptr) return Status::failure("P0301", "the archive has lost its bytes ('" + name + "')");
  const int64_t width = dtype_bytes(*payload.dtype);
  int64_t elements = 1, last = payload.offset;
  for (size_t d = 0; d < payload.sizes.size(); ++d) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(elements, payload.sizes[d], &elements) || elements > kMostStoredElements ||
        __builtin_mul_overflow(payload.strides[d], std::max<int64_t>(payload.sizes[d] - 1, 0), &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > kMostStoredElements)
      return Status::failure("P0301", "its extents are impossible");
  }
  if (elements * width > entry->bytes)
    return Status::failure("P0301", "'" + name + "' holds " + std::to_string(entry->bytes) +
                                        " bytes; its extents need " + std::to_string(elements * width));
  if (elements > 0 && (last + 1) * width > entry->bytes)
    return Status::failure("P0301", "'" + name + "' holds " + std::to_string(entry->bytes) +
                                        " bytes; its extents need " + std::to_string((last + 1) * width));
  ir::WeightSource out;
  out.bytes = elements * width;
  if (entry->method == 0 && is_row_major(payload)) {
    PIPER_RETURN_IF_ERROR(archive.check(name));
    out.file = archive.path();
    out.offset = entry->data_offset + payload.offset * width;
    return out;
  }
  PIPER_ASSIGN(const std::vector<std::byte> bytes, archive.read(name));
  out.data =
      std::make_shared<const std::vector<std::byte>>(gathered(bytes, payload, elements, static_cast<size_t>(width)));
  return out;
}

}  // namespace piper::frontend::pt2
