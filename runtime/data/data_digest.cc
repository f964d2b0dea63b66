#include "runtime/data/data_digest.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "schemas/plan/file_bytes.h"

namespace piper::data {

namespace {

constexpr size_t kBlock = size_t{1} << 20, kBlocks = 64;

std::string digest_of(std::string_view bytes) {
  if (bytes.size() <= kBlock * kBlocks) return plan::sha256(bytes);
  std::string blocks;
  for (size_t i = 0; i < kBlocks; ++i)
    blocks += plan::sha256(bytes.substr((bytes.size() - kBlock) / (kBlocks - 1) * i, kBlock));
  return plan::sha256(blocks);
}

}  // namespace

Result<std::string> data_digest(const DataOptions& options) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  if (std::filesystem::is_directory(options.path, error)) {
    std::filesystem::directory_iterator entry(options.path, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
      if (entry->path().extension() == ".npy") files.push_back(entry->path());
    if (error) return Status::failure("R0201", "cannot read '" + options.path + "': " + error.message());
    std::sort(files.begin(), files.end());
  } else {
    files.emplace_back(options.path);
  }
  std::string text = "elements " + options.token_dtype + "\n";
  for (const std::filesystem::path& file : files) {
    const auto mapped = plan::map_file(file.string());
    if (!mapped.ok()) return Status::failure("R0201", mapped.error().message);
    if (files.size() > 1) text += file.filename().string() + "\n";
    text += std::to_string(mapped->bytes) + " " + digest_of(mapped->text()) + "\n";
  }
  return plan::sha256(text);
}

}  // namespace piper::data
