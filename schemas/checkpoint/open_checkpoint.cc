#include "schemas/checkpoint/open_checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "schemas/plan/file_bytes.h"

namespace piper::checkpoint {

namespace {

Status damaged(const std::string& message) { return Status::failure("R0705", message); }

// What the plan's readers say of a file is that a checkpoint is damaged.
Status as_damage(const Status& status, const std::string& tensor = "") {
  return damaged(status.error().message + (tensor.empty() ? "" : "; tensor '" + tensor + "' lies there"));
}

// The first that the manifest places in a file: it lies right after the header.
std::string first_tensor_in(const Manifest& manifest, const plan::FileEntry& file) {
  for (const StoredTensor& tensor : manifest.tensors)
    for (const StoredPart& part : tensor.parts)
      if (manifest.files[static_cast<size_t>(part.file)].path == file.path) return tensor.name;
  return "";
}

// Links lead out of the checkpoint.
Status check_regular(const std::string& path) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return damaged("cannot read " + path + ": " + std::strerror(errno));
  if (!S_ISREG(found.st_mode)) return damaged(path + " is no regular file");
  return {};
}

}  // namespace

Result<OpenCheckpoint> OpenCheckpoint::open(const std::string& path) {
  OpenCheckpoint checkpoint;
  checkpoint.path_ = path;
  const std::string manifest = path + "/" + std::string(kManifestFile);
  PIPER_RETURN_IF_ERROR(check_regular(manifest));
  const auto text = plan::map_file(manifest);
  if (!text.ok()) return as_damage(text.status());
  PIPER_ASSIGN(checkpoint.manifest_, parse_manifest(text->text(), manifest));
  const int64_t named = step_of_folder(path.substr(path.rfind('/') + 1));
  if (named >= 0 && named != checkpoint.manifest_.step)
    return damaged(manifest + " is that of step " + std::to_string(checkpoint.manifest_.step));
  for (const plan::FileEntry& entry : checkpoint.manifest_.files) {
    const std::string file = path + "/" + entry.path;
    PIPER_RETURN_IF_ERROR(check_regular(file));
    auto chunked = plan::ChunkedFile::open(path, entry);
    if (!chunked.ok()) return as_damage(chunked.status());
    auto shard = plan::SafetensorsFile::open(
        (*chunked)->file(), file, [&](const std::byte* data, int64_t bytes) { return (*chunked)->check(data, bytes); });
    if (!shard.ok()) return as_damage(shard.status(), first_tensor_in(checkpoint.manifest_, entry));
    checkpoint.files_.push_back(std::move(chunked).value());
    checkpoint.shards_.push_back(std::move(shard).value());
  }
  for (const StoredTensor& tensor : checkpoint.manifest_.tensors)
    for (const StoredPart& part : tensor.parts) {
      const auto index = static_cast<size_t>(part.file);
      const plan::TensorView* view = checkpoint.shards_[index].find(part.key);
      if (view == nullptr || view->dtype != tensor.dtype ||
          view->bytes != (part.end - part.begin) * dtype_bytes(tensor.dtype))
        return damaged(checkpoint.files_[index]->path() + " does not hold elements " + std::to_string(part.begin) +
                       " to " + std::to_string(part.end) + " of tensor '" + tensor.name + "' as '" + part.key + "'");
    }
  return checkpoint;
}

// In the checkpoint's own order.
Status OpenCheckpoint::read_stored(const StoredTensor& tensor, int64_t first, int64_t count, const Take& take) const {
  const int64_t element = dtype_bytes(tensor.dtype);
  const auto ends_before = [](int64_t at, const StoredPart& part) { return at < part.end; };
  auto part = std::upper_bound(tensor.parts.begin(), tensor.parts.end(), first, ends_before);
  for (; part != tensor.parts.end() && part->begin < first + count; ++part) {
    const int64_t from = std::max(first, part->begin), to = std::min(first + count, part->end);
    if (from >= to) continue;
    const auto index = static_cast<size_t>(part->file);
    const std::byte* const data = shards_[index].find(part->key)->data + (from - part->begin) * element;
    const int64_t bytes = (to - from) * element;
    if (Status status = files_[index]->check(data, bytes); !status.ok()) return as_damage(status, tensor.name);
    PIPER_RETURN_IF_ERROR(take((from - first) * element, data, bytes));
  }
  return {};
}

Status OpenCheckpoint::read(const StoredTensor& tensor, const plan::ElementOrder& order, int64_t first, int64_t count,
                            const Take& take) const {
  const plan::ElementOrder stored = tensor.order();
  if (order == stored) return read_stored(tensor, first, count, take);
  const int64_t element = dtype_bytes(tensor.dtype);
  const auto fill = [&](int64_t at, int64_t n, std::byte* to) -> Status {
    for (const plan::ElementRun& asked : order.row_major_runs(first + at, n))
      for (const plan::ElementRun& run : stored.counted_runs(asked.there, asked.count))
        PIPER_RETURN_IF_ERROR(
            read_stored(tensor, run.there, run.count, [&](int64_t offset, const std::byte* data, int64_t bytes) {
              std::memcpy(to + (asked.at + run.at) * element + offset, data, static_cast<size_t>(bytes));
              return Status();
            }));
    return {};
  };
  return plan::gather_pieces(count, element, fill, [&](int64_t at, int64_t n, const std::byte* data) {
    return take(at * element, data, n * element);
  });
}

std::string OpenCheckpoint::tensor_at(size_t file, const std::byte* place) const {
  for (const StoredTensor& tensor : manifest_.tensors)
    for (const StoredPart& part : tensor.parts) {
      if (static_cast<size_t>(part.file) != file) continue;
      const plan::TensorView* view = shards_[file].find(part.key);
      if (view->data < place + plan::kChunkBytes && place < view->data + view->bytes) return tensor.name;
    }
  return "";
}

Status OpenCheckpoint::check_part(size_t part, size_t parts) const {
  int64_t chunks = 0;
  for (const auto& file : files_) chunks += plan::chunk_count(file->file().bytes);
  const auto end_of = [&](size_t n) { return chunks * static_cast<int64_t>(n) / static_cast<int64_t>(parts); };
  const int64_t begin = end_of(part), end = end_of(part + 1);
  int64_t before = 0;  // chunks of earlier files
  for (size_t i = 0; i < files_.size(); ++i) {
    const plan::MappedFile& file = files_[i]->file();
    const int64_t here = plan::chunk_count(file.bytes);
    for (int64_t chunk = std::max(begin - before, int64_t{0}); chunk < std::min(end - before, here); ++chunk) {
      const int64_t at = chunk * plan::kChunkBytes;
      if (Status status = files_[i]->check(file.data + at, std::min(plan::kChunkBytes, file.bytes - at)); !status.ok())
        return as_damage(status, tensor_at(i, file.data + at));
    }
    before += here;
  }
  return {};
}

Status OpenCheckpoint::check_all(bool seals) const {
  PIPER_RETURN_IF_ERROR(check_part(0, 1));
  for (size_t i = 0; i < files_.size() && seals; ++i)
    if (plan::sha256(files_[i]->file().text()) != manifest_.files[i].sha256)
      return damaged(files_[i]->path() + ": damaged or changed by hand: its SHA-256 differs from the manifest");
  return {};
}

}  // namespace piper::checkpoint
