#include "schemas/plan/safetensors.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "schemas/plan/durable_files.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_writer.h"

namespace piper::plan {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<const char*, DType>, 7> kNames = {{{"F32", DType::kF32},
                                                                  {"F64", DType::kF64},
                                                                  {"BF16", DType::kBF16},
                                                                  {"F16", DType::kF16},
                                                                  {"I64", DType::kI64},
                                                                  {"I32", DType::kI32},
                                                                  {"BOOL", DType::kBool}}};
constexpr int64_t kMaxHeader = 100'000'000;

const char* format_name(DType dtype) {
  for (const auto& [name, value] : kNames)
    if (value == dtype) return name;
  return "";
}

bool is_size(const Json& value, int64_t limit) { return value.is_number_integer() && value >= 0 && value <= limit; }

// One tensor of the header. `data`, `size`: the bytes after the header.
Status read_tensor(const Json& entry, const std::byte* data, int64_t size, TensorView& tensor) {
  const auto bad = [](const std::string& why) { return Status::failure("P0620", why); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
    return bad("needs dtype, shape and data_offsets");
  const auto& dtype = entry["dtype"];
  const auto& shape = entry["shape"];
  const auto& offsets = entry["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return bad("dtype must be a string, shape a list, data_offsets two numbers");
  bool known = false;
  for (const auto& [name, value] : kNames) {
    if (dtype.get_ref<const std::string&>() != name) continue;
    tensor.dtype = value;
    known = true;
  }
  if (!known)
    return bad("dtype " + dtype.get<std::string>() + " is not supported (F32, F64, BF16, F16, I64, I32, BOOL are)");
  int64_t bytes = dtype_bytes(tensor.dtype);
  for (const auto& extent : shape) {
    if (!is_size(extent, INT64_MAX)) return bad("shape must hold numbers from 0 up");
    tensor.shape.push_back(extent.get<int64_t>());
    if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes)) return bad("shape is too large");
  }
  if (!is_size(offsets[0], size) || !is_size(offsets[1], size) || offsets[1] < offsets[0])
    return bad("data_offsets lie outside the file");
  const auto first = offsets[0].get<int64_t>(), last = offsets[1].get<int64_t>();
  if (last - first != bytes)
    return bad("data_offsets hold " + std::to_string(last - first) + " bytes, the shape needs " +
               std::to_string(bytes));
  tensor.data = data + first;
  tensor.bytes = bytes;
  return {};
}

Status write_all(int fd, const void* data, int64_t bytes, const std::string& path) {
  auto at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, at, static_cast<size_t>(bytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Status::failure("P0621", "cannot write " + path + ": " + std::strerror(errno));
    at += written;
    bytes -= written;
  }
  return {};
}

constexpr const char* kMetadata = "__metadata__";

// Transformers asks a file whose tensors they are before it loads it.
std::string of_pytorch(const std::map<std::string, std::string>& metadata) {
  JsonWriter json;
  json.string(kMetadata);
  json.raw(":{");
  json.member("format", "pt");
  for (const auto& [key, value] : metadata) json.member(key, value);
  json.raw("}");
  return json.str();
}

std::string header_text(const std::vector<TensorToWrite>& tensors, std::string_view metadata) {
  JsonWriter json;
  json.raw("{");
  json.raw(metadata);
  int64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (json.size() > 1) json.raw(",");
    json.string(tensor.name);
    json.raw(":{");
    json.member("dtype", format_name(tensor.dtype));
    json.member("shape", tensor.shape);
    json.member("data_offsets", std::vector<int64_t>{offset, offset + tensor.bytes});
    json.raw("}");
    offset += tensor.bytes;
  }
  json.raw("}");
  while (json.size() % 8 != 0) json.raw(" ");
  return json.str();
}

std::string whole_header(const std::vector<TensorToWrite>& tensors, std::string_view metadata) {
  const std::string text = header_text(tensors, metadata);
  std::string header(8, '\0');
  for (size_t i = 0; i < 8; ++i) header[i] = static_cast<char>(text.size() >> (8 * i));
  return header + text;
}

Status write_to(int fd, const std::vector<TensorToWrite>& tensors, std::string_view metadata, const std::string& path) {
  const auto header = whole_header(tensors, metadata);
  PIPER_RETURN_IF_ERROR(write_all(fd, header.data(), static_cast<int64_t>(header.size()), path));
  for (const auto& tensor : tensors) {
    int64_t written = 0;
    PIPER_RETURN_IF_ERROR(tensor.produce([&](const void* data, int64_t bytes) {
      written += bytes;
      return write_all(fd, data, bytes, path);
    }));
    PIPER_CHECK(written == tensor.bytes, tensor.name, ": ", written, " bytes written of ", tensor.bytes);
  }
  return {};
}

// `path`: what messages call it.
Status write_to_file(const std::string& file, const std::string& path, const std::vector<TensorToWrite>& tensors,
                     std::string_view metadata, bool to_disk) {
  const auto failure = [&path] {
    return Status::failure("P0621", "cannot write " + path + ": " + std::strerror(errno));
  };
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return failure();
  Status status = write_to(fd, tensors, metadata, path);
  if (status.ok() && to_disk && ::fsync(fd) != 0) status = failure();
  if (::close(fd) != 0 && status.ok()) status = failure();
  return status;
}

}  // namespace

std::string safetensors_header(const std::vector<TensorToWrite>& tensors) { return whole_header(tensors, ""); }

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  PIPER_ASSIGN(const auto mapped, map_file(path));
  return open(mapped, path, [](const std::byte*, int64_t) { return Status(); });
}

Result<SafetensorsFile> SafetensorsFile::open(const MappedFile& mapped, const std::string& path, const Check& check) {
  const auto bad = [&path](const std::string& why) {
    return Status::failure("P0620", path + ": not a safetensors file, or damaged: " + why);
  };
  if (mapped.bytes < 8) return bad("shorter than its 8-byte header length");
  PIPER_RETURN_IF_ERROR(check(mapped.data, 8));
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= static_cast<uint64_t>(mapped.data[i]) << (8 * i);
  if (length > static_cast<uint64_t>(mapped.bytes - 8) || length > kMaxHeader)
    return bad("the header's length " + std::to_string(length) + " goes beyond the file");
  PIPER_RETURN_IF_ERROR(check(mapped.data + 8, static_cast<int64_t>(length)));
  const auto header = mapped.text().substr(8, length);
  const Json json = Json::parse(header.begin(), header.end(), nullptr, false);
  if (!json.is_object()) return bad("the header is not a JSON object");
  SafetensorsFile file;
  const std::byte* const data = mapped.data + 8 + length;
  const int64_t size = mapped.bytes - 8 - static_cast<int64_t>(length);
  for (const auto& [name, entry] : json.items()) {
    if (name == kMetadata) {
      for (const auto& [key, value] : entry.items())
        if (value.is_string()) file.metadata_.emplace(key, value.get<std::string>());
      continue;
    }
    TensorView tensor;
    if (auto status = read_tensor(entry, data, size, tensor); !status.ok())
      return bad("tensor \"" + name + "\": " + status.error().message);
    file.tensors_.emplace(name, std::move(tensor));
  }
  file.mapping_ = mapped.mapping;
  return file;
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Status stream_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors) {
  return write_to_file(path, path, tensors, "", false);
}

Status write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  const std::string partial = path + ".partial-" + std::to_string(::getpid());
  Status status = write_to_file(partial, path, tensors, of_pytorch(metadata), true);
  std::error_code error;
  if (status.ok()) {
    error = put_file(partial, path);
    if (error) status = Status::failure("P0621", "cannot write " + path + ": " + error.message());
  }
  if (!status.ok()) std::filesystem::remove(partial, error);
  return status;
}

}  // namespace piper::plan
