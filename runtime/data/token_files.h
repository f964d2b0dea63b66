// The token files of one path: a file, or all files of a folder in the byte-wise order of their names. A sample is
// T tokens and the one after them; samples are T apart, and none reaches from one file into the next: what is left
// at a file's end is not read. Mapped; read-only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/data_form.h"
#include "runtime/data/element.h"
#include "schemas/base/status.h"
#include "schemas/plan/file_bytes.h"

namespace piper::data {

struct TokenFile {
  plan::MappedFile file;  // of .npy files, what is after the header
  Element element = Element::kU8;
  int64_t tokens = 0;
  DataForm form = DataForm::kTokens;
};
// `dtype`: u8, u16, u32, i32, or "" to go by what the file says of itself (an index beside it, a .npy header) or by its
// name (*.u32.bin: u32, *.u8.bin: u8, *.bin: u16; text: u8). R0201, R0206, R0208, R0213.
Result<TokenFile> open_token_file(const std::string& path, const std::string& dtype);

// "raw tokens, 1000 tokens of u16".
std::string tokens_description(DataForm form, Element element, int64_t tokens);

// Whether a path is data of the other kind: a safetensors file whatever its name, or a folder with .npy files.
bool holds_tensors(const std::string& path);

// A folder's token files: those whose names do not begin with a dot, and no index of one of them. R0201: it has none;
// R0210: it has folders.
Result<std::vector<std::string>> token_files_in(const std::string& folder);

class TokenFiles {
 public:
  // Errors of open_token_file(); R0207: no file holds a sample; R0210: files with tokens of different sizes.
  static Result<TokenFiles> open(const std::string& path, const std::string& dtype, int64_t sample_tokens);
  Element element() const { return files_.front().element; }
  int64_t samples() const { return ends_.back(); }
  // For people: what the files are, and how many tokens they hold.
  std::string description() const;
  // Where sample n begins, 0 <= n < samples().
  const std::byte* sample(int64_t n) const;

 private:
  int64_t sample_tokens_ = 1;
  int64_t tokens_ = 0;  // of all files, those without a sample, too
  size_t files_read_ = 0;
  DataForm form_ = DataForm::kTokens;  // of the first
  std::vector<TokenFile> files_;       // those that hold samples
  std::vector<int64_t> ends_;          // [file] samples up to its end
};

}  // namespace piper::data
