#include "runtime/data/token_files.h"

#include <algorithm>
#include <filesystem>

#include "runtime/data/npy.h"

namespace piper::data {

namespace fs = std::filesystem;

Result<Element> token_element(const std::string& path, const std::string& dtype) {
  if (dtype == "u8") return Element::kU8;
  if (dtype == "u16") return Element::kU16;
  if (dtype == "u32") return Element::kU32;
  if (!dtype.empty()) return Status::failure("R0206", "--token-dtype " + dtype + ": it is u8, u16 or u32");
  if (path.ends_with(".u32.bin")) return Element::kU32;
  return path.ends_with(".bin") ? Element::kU16 : Element::kU8;
}

Result<TokenFile> open_token_file(const std::string& path, const std::string& dtype) {
  TokenFile opened;
  PIPER_ASSIGN(opened.element, token_element(path, dtype));
  PIPER_ASSIGN(opened.file, map_data(path));
  if (opened.file.bytes % element_bytes(opened.element) != 0)
    return Status::failure("R0206", "'" + path + "' has " + std::to_string(opened.file.bytes) +
                                        " bytes, no multiple of a " + std::string(element_name(opened.element)) +
                                        " token; --token-dtype says what it holds");
  opened.tokens = opened.file.bytes / element_bytes(opened.element);
  return opened;
}

bool holds_tensors(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    constexpr std::string_view kSuffix = ".safetensors";
    return path.size() > kSuffix.size() && path.ends_with(kSuffix);
  }
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".npy") return true;
  return false;
}

Result<std::vector<std::string>> token_files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.front() == '.') continue;
    if (entry->is_directory(error))
      return Status::failure("R0210", "'" + folder + "' holds the folder '" + name +
                                          "': a folder of token files holds files alone; name folders one by one");
    names.push_back(std::move(name));
  }
  if (error) return Status::failure("R0201", "cannot read '" + folder + "': " + error.message());
  if (names.empty()) return Status::failure("R0201", "the folder '" + folder + "' holds no files");
  std::sort(names.begin(), names.end());  // by bytes: std::string compares them as unsigned
  return names;
}

Result<TokenFiles> TokenFiles::open(const std::string& path, const std::string& dtype, int64_t sample_tokens) {
  std::vector<std::string> names = {path};
  std::error_code error;
  if (fs::is_directory(path, error)) {
    PIPER_ASSIGN(names, token_files_in(path));
    for (std::string& name : names) name.insert(0, path + "/");
  }
  TokenFiles files;
  files.sample_tokens_ = sample_tokens;
  int64_t longest = 0, samples = 0;
  Element first = Element::kU8;
  for (const std::string& name : names) {
    PIPER_ASSIGN(TokenFile file, open_token_file(name, dtype));
    if (&name == names.data()) first = file.element;
    if (file.element != first)
      return Status::failure("R0210", "'" + names.front() + "' holds " + std::string(element_name(first)) +
                                          " tokens, '" + name + "' " + std::string(element_name(file.element)) +
                                          ": --token-dtype says what all of them hold");
    longest = std::max(longest, file.tokens);
    if (file.tokens <= sample_tokens) continue;
    samples += (file.tokens - 1) / sample_tokens;
    files.files_.push_back(std::move(file));
    files.ends_.push_back(samples);
  }
  if (samples == 0)
    return Status::failure("R0207", "'" + path + "' holds no sample: its longest file has " + std::to_string(longest) +
                                        " tokens, one sample needs " + std::to_string(sample_tokens + 1));
  return files;
}

const std::byte* TokenFiles::sample(int64_t n) const {
  const auto file = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), n) - ends_.begin());
  const int64_t before = file == 0 ? 0 : ends_[file - 1];
  return files_[file].file.data + (n - before) * sample_tokens_ * element_bytes(files_[file].element);
}

}  // namespace piper::data
