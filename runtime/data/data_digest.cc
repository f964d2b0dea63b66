#include "runtime/data/data_digest.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "runtime/data/npy.h"
#include "runtime/data/token_files.h"
#include "schemas/plan/file_bytes.h"

namespace piper::data {

namespace {

constexpr plan::Blocks kBlocks{size_t{1} << 20, 64};

Result<std::vector<std::string>> array_files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".npy") names.push_back(entry->path().filename().string());
  if (error) return Status::failure("R0201", "cannot read '" + folder + "': " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// Appends a line for each file that is data at this path: of a token file with the elements that it is read as, so that
// what `dtype` says and what a name says already give one digest.
Status add_files(const std::string& path, const std::string& dtype, plan::Blocks blocks, std::string& text) {
  std::vector<std::string> files = {path};
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error), tensors = holds_tensors(path);
  if (folder) {
    PIPER_ASSIGN(files, tensors ? array_files_in(path) : token_files_in(path));
    for (std::string& name : files) name.insert(0, path + "/");
  }
  const bool names = folder && (files.size() > 1 || !tensors);
  for (const std::string& file : files) {
    if (names) text += file.substr(path.size() + 1) + "\n";
    if (tensors) {
      PIPER_ASSIGN(const plan::MappedFile mapped, map_data(file));
      text += std::to_string(mapped.bytes) + " " + plan::sha256_of_blocks(mapped.text(), blocks) + "\n";
      continue;
    }
    PIPER_ASSIGN(const TokenFile opened, open_token_file(file, dtype));
    text += std::to_string(opened.file.bytes) + " " + plan::sha256_of_blocks(opened.file.text(), blocks) + " " +
            std::string(element_name(opened.element)) + "\n";
  }
  return {};
}

Result<std::string> digest_of(const DataOptions& options, plan::Blocks blocks) {
  std::string text;
  if (options.document_end >= 0) text += "document_end " + std::to_string(options.document_end) + "\n";
  if (options.mix.empty()) PIPER_RETURN_IF_ERROR(add_files(options.path, options.token_dtype, blocks, text));
  for (const plan::DataPath& data : options.mix) {
    char weight[40];
    std::snprintf(weight, sizeof weight, "source %a\n", data.weight);
    text += weight;
    PIPER_RETURN_IF_ERROR(add_files(data.path, options.token_dtype, blocks, text));
  }
  return plan::sha256(text);
}

}  // namespace

Result<std::string> data_digest(const DataOptions& options) { return digest_of(options, kBlocks); }

Result<std::string> quick_data_digest(const DataOptions& options) { return digest_of(options, plan::kQuickBlocks); }

}  // namespace piper::data
