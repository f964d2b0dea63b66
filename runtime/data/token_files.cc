#include "runtime/data/token_files.h"

#include <algorithm>
#include <filesystem>

#include "runtime/data/megatron.h"
#include "runtime/data/npy.h"

namespace piper::data {

namespace fs = std::filesystem;

namespace {

Result<Element> raw_element(const std::string& path, const std::string& dtype) {
  for (const Element element : {Element::kU8, Element::kU16, Element::kU32, Element::kI32})
    if (dtype == element_name(element)) return element;
  if (!dtype.empty()) return Status::failure("R0206", "--token-dtype " + dtype + ": it is u8, u16, u32 or i32");
  return path.ends_with(".u32.bin") ? Element::kU32 : path.ends_with(".u8.bin") ? Element::kU8 : Element::kU16;
}

// Where a file says of itself what it holds, --token-dtype can only agree.
Status check_said(const std::string& path, Element element, const std::string& dtype) {
  if (dtype.empty() || dtype == element_name(element)) return {};
  return Status::failure("R0206", "'" + path + "' says that it holds " + std::string(element_name(element)) +
                                      " tokens, --token-dtype says " + dtype);
}

Result<TokenFile> open_npy_tokens(const std::string& path) {
  PIPER_ASSIGN(SourceTensor tensor, open_npy(path));
  if (tensor.shape.size() != 1 || !can_convert(tensor.element, DType::kI64))
    return Status::failure("R0206", "'" + path + "' is no list of tokens: its elements are " +
                                        std::string(element_name(tensor.element)) + ", of " +
                                        std::to_string(tensor.shape.size()) +
                                        " dimensions\nhelp: arrays of samples are read from a folder that has one "
                                        "NAME.npy for each input of the model");
  TokenFile opened;
  opened.form = DataForm::kNpy;
  opened.element = tensor.element;
  opened.tokens = tensor.shape[0];
  opened.file = {tensor.keep_alive, tensor.data, opened.tokens * element_bytes(opened.element)};
  return opened;
}

Result<TokenFile> open_megatron(const std::string& path, const std::string& dtype) {
  const std::string tokens = tokens_beside(path), index_path = index_beside(tokens);
  std::error_code error;
  if (!fs::exists(tokens, error))
    return Status::failure("R0201", "'" + path + "' is Megatron's index of tokens, and there is no '" + tokens + "'");
  PIPER_ASSIGN(const MegatronIndex index, read_megatron_index(index_path));
  PIPER_RETURN_IF_ERROR(check_said(index_path, index.element, dtype));
  TokenFile opened;
  opened.form = DataForm::kMegatron;
  opened.element = index.element;
  opened.tokens = index.tokens;
  PIPER_ASSIGN(opened.file, map_data(tokens));
  if (opened.file.bytes != index.tokens * element_bytes(index.element))
    return Status::failure("R0213", "'" + index_path + "' is of another file: it says " + std::to_string(index.tokens) +
                                        " tokens of type " + std::string(element_name(index.element)) + ", and '" +
                                        tokens + "' has " + std::to_string(opened.file.bytes) + " bytes");
  return opened;
}

}  // namespace

Result<TokenFile> open_token_file(const std::string& path, const std::string& dtype) {
  PIPER_ASSIGN(const DataForm form, recognise(path, dtype));
  TokenFile opened;
  opened.form = form;
  switch (form) {
    case DataForm::kSafetensors:
      return Status::failure("R0206", "'" + path + "' holds tensors, and a token stream is asked for");
    case DataForm::kNpy: {
      PIPER_ASSIGN(opened, open_npy_tokens(path));
      PIPER_RETURN_IF_ERROR(check_said(path, opened.element, dtype));
      return opened;
    }
    case DataForm::kMegatron: return open_megatron(path, dtype);
    case DataForm::kText: opened.element = Element::kU8; break;
    case DataForm::kTokens: {
      PIPER_ASSIGN(opened.element, raw_element(path, dtype));
      break;
    }
  }
  PIPER_ASSIGN(opened.file, map_data(path));
  if (opened.file.bytes % element_bytes(opened.element) != 0)
    return Status::failure("R0206", "'" + path + "' has " + std::to_string(opened.file.bytes) +
                                        " bytes, which is not a multiple of a " +
                                        std::string(element_name(opened.element)) +
                                        " token; set the type of the tokens with --token-dtype");
  opened.tokens = opened.file.bytes / element_bytes(opened.element);
  return opened;
}

std::string tokens_description(DataForm form, Element element, int64_t tokens) {
  const std::string counted = std::to_string(tokens) + " tokens of " + std::string(element_name(element));
  switch (form) {
    case DataForm::kText: return "text, each byte a token, " + counted;
    case DataForm::kMegatron: return "Megatron's index and tokens, " + counted;
    case DataForm::kNpy: return "an array, " + counted;
    case DataForm::kTokens:
    case DataForm::kSafetensors: break;
  }
  return "raw tokens, " + counted;
}

bool holds_tensors(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (path.ends_with(".safetensors")) return true;  // a damaged one, too, which its reader reports
    const auto form = recognise(path, "");
    return form.ok() && *form == DataForm::kSafetensors;
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
    // Read with its tokens; where these are missing, it is named as what lacks them.
    if (name.ends_with(".idx") && fs::exists(tokens_beside(entry->path().string()), error)) continue;
    if (entry->is_directory(error))
      return Status::failure("R0210", "'" + folder + "' holds the folder '" + name +
                                          "': a folder of token files may contain only files; name folders one by one");
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
  files.files_read_ = names.size();
  int64_t longest = 0, samples = 0;
  Element first = Element::kU8;
  for (const std::string& name : names) {
    PIPER_ASSIGN(TokenFile file, open_token_file(name, dtype));
    if (&name == names.data()) {
      first = file.element;
      files.form_ = file.form;
    }
    files.tokens_ += file.tokens;
    if (file.element != first)
      return Status::failure("R0210", "'" + names.front() + "' holds " + std::string(element_name(first)) +
                                          " tokens, '" + name + "' " + std::string(element_name(file.element)) +
                                          ": set the type of all of them with --token-dtype");
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

std::string TokenFiles::description() const {
  return (files_read_ == 1 ? std::string() : std::to_string(files_read_) + " files, ") +
         tokens_description(form_, element(), tokens_);
}

const std::byte* TokenFiles::sample(int64_t n) const {
  const auto file = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), n) - ends_.begin());
  const int64_t before = file == 0 ? 0 : ends_[file - 1];
  return files_[file].file.data + (n - before) * sample_tokens_ * element_bytes(files_[file].element);
}

}  // namespace piper::data
