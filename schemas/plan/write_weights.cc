#include "schemas/plan/write_weights.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "schemas/plan/convert_elements.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/names.h"
#include "schemas/plan/safetensors.h"

namespace piper::plan {
namespace {

constexpr size_t kPieceBytes = 1 << 20;
using Sources = std::map<std::string, MappedFile>;
using Write = std::function<Status(const void*, int64_t)>;

// Writes the tensor whose permute(permutation) is stored at `source`, row by row of its own layout.
// tensor[i_0, ...] = stored[j_0, ...] with j_k = i_permutation[k].
Status write_unpermuted(const WeightTensor& tensor, const std::byte* source, const Write& write) {
  const size_t axes = tensor.shape.size();
  std::vector<int64_t> stored_shape(axes), step(axes), index(axes, 0);
  for (size_t k = 0; k < axes; ++k) stored_shape[k] = tensor.shape[static_cast<size_t>(tensor.permutation[k])];
  const auto stored_strides = contiguous_strides(stored_shape);
  for (size_t k = 0; k < axes; ++k) step[static_cast<size_t>(tensor.permutation[k])] = stored_strides[k];
  const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype));
  std::vector<std::byte> piece;
  piece.reserve(kPieceBytes + size);
  const int64_t count = tensor.bytes / static_cast<int64_t>(size);
  int64_t at = 0;
  for (int64_t n = 0; n < count; ++n) {
    const std::byte* const element = source + static_cast<size_t>(at) * size;
    piece.insert(piece.end(), element, element + size);
    if (piece.size() >= kPieceBytes || n + 1 == count) {
      PIPER_RETURN_IF_ERROR(write(piece.data(), static_cast<int64_t>(piece.size())));
      piece.clear();
    }
    for (size_t axis = axes; axis-- > 0;) {
      at += step[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      at -= step[axis] * tensor.shape[axis];
      index[axis] = 0;
    }
  }
  return {};
}

Status check_tensor(const WeightTensor& tensor) {
  const auto count = element_count(tensor.shape);
  PIPER_CHECK(count && *count * dtype_bytes(tensor.dtype) == tensor.bytes, tensor.name, ": shape and bytes disagree");
  PIPER_CHECK(tensor.permutation.empty() || tensor.permutation.size() == tensor.shape.size(), tensor.name);
  std::vector<char> seen(tensor.shape.size());
  for (const int64_t axis : tensor.permutation) {
    PIPER_CHECK(axis >= 0 && static_cast<size_t>(axis) < seen.size() && !seen[static_cast<size_t>(axis)], tensor.name);
    seen[static_cast<size_t>(axis)] = 1;
  }
  return {};
}

Status map_sources(const std::vector<WeightTensor>& tensors, Sources& sources) {
  for (const auto& tensor : tensors) {
    PIPER_RETURN_IF_ERROR(check_tensor(tensor));
    if (tensor.file.empty()) {
      PIPER_CHECK(tensor.data != nullptr || tensor.bytes == 0, tensor.name);
      continue;
    }
    auto found = sources.find(tensor.file);
    if (found == sources.end()) {
      PIPER_ASSIGN(auto file, map_file(tensor.file));
      found = sources.emplace(tensor.file, std::move(file)).first;
    }
    if (!range_inside(tensor.offset, tensor.bytes, found->second.bytes))
      return Status::failure("P0610", tensor.file + ": tensor \"" + tensor.name + "\" (" +
                                          std::to_string(tensor.bytes) + " bytes at " + std::to_string(tensor.offset) +
                                          ") lies outside the file's " + std::to_string(found->second.bytes) +
                                          " bytes");
  }
  return {};
}

// Whether the one source is a safetensors file of exactly these tensors.
bool can_link(const std::vector<WeightTensor>& tensors, const Sources& sources) {
  if (tensors.empty() || sources.size() != 1) return false;
  const auto& [path, bytes] = *sources.begin();
  const auto file = SafetensorsFile::open(path);
  if (!file.ok() || file->tensors().size() != tensors.size()) return false;
  for (const auto& tensor : tensors) {
    const auto* const stored = file->find(tensor.name);
    if (tensor.file != path || !tensor.permutation.empty() || stored == nullptr || stored->dtype != tensor.dtype ||
        stored->shape != tensor.shape ||
        std::memcmp(stored->data, bytes.data + tensor.offset, static_cast<size_t>(tensor.bytes)) != 0)
      return false;
  }
  return true;
}

}  // namespace

Status write_weights(const std::string& path, const std::vector<WeightTensor>& tensors, WeightMode mode) {
  Sources sources;
  PIPER_RETURN_IF_ERROR(map_sources(tensors, sources));
  if (mode == WeightMode::kLink && can_link(tensors, sources)) {
    std::error_code error;
    const auto target = std::filesystem::canonical(sources.begin()->first, error);
    if (!error) std::filesystem::create_hard_link(target, path, error);
    if (!error) return {};
  }
  std::vector<TensorToWrite> list;
  list.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    const std::byte* const source = tensor.file.empty() ? tensor.data : sources.at(tensor.file).data + tensor.offset;
    auto produce = [&tensor, source](const Write& write) -> Status {
      if (!tensor.permutation.empty()) return write_unpermuted(tensor, source, write);
      return tensor.bytes == 0 ? Status() : write(source, tensor.bytes);
    };
    list.push_back({tensor.name, tensor.dtype, tensor.shape, std::move(produce), tensor.bytes});
  }
  return stream_safetensors(path, list);
}

std::optional<float> one_element(DType dtype, std::string_view bytes) {
  float value = 0;
  if (bytes.size() != static_cast<size_t>(dtype_bytes(dtype))) return std::nullopt;
  if (dtype == DType::kF32) std::memcpy(&value, bytes.data(), sizeof value);
  else if (dtype == DType::kBF16) convert_elements(dtype, bytes.data(), DType::kF32, &value, 1);
  else return std::nullopt;
  return value;
}

Result<std::vector<ConstantContent>> constant_contents(const std::vector<WeightTensor>& constants) {
  Sources sources;
  PIPER_RETURN_IF_ERROR(map_sources(constants, sources));
  std::vector<ConstantContent> contents;
  for (const auto& tensor : constants) {
    const std::byte* const source = tensor.file.empty() ? tensor.data : sources.at(tensor.file).data + tensor.offset;
    std::string unpermuted;
    if (!tensor.permutation.empty())
      PIPER_RETURN_IF_ERROR(write_unpermuted(tensor, source, [&](const void* data, int64_t bytes) {
        unpermuted.append(static_cast<const char*>(data), static_cast<size_t>(bytes));
        return Status();
      }));
    const auto bytes = tensor.permutation.empty() ? text_of(source, tensor.bytes) : std::string_view(unpermuted);
    contents.push_back({tensor.name, sha256(bytes), tensor.dtype, tensor.shape, one_element(tensor.dtype, bytes)});
  }
  return contents;
}

}  // namespace piper::plan
