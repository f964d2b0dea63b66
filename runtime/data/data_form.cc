#include "runtime/data/data_form.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "schemas/plan/file_bytes.h"

namespace piper::data {

namespace {

using namespace std::string_view_literals;

constexpr size_t kLookedAt = size_t{1} << 16;  // bytes that tell text from what is none

constexpr std::string_view kIndexMark = "MMIDIDX\x00\x00"sv;

// Ends of commands, with IN and OUT for the file and what it becomes.
constexpr std::string_view kToTokens = "python tools/piper_tokens.py IN -o OUT.bin --tokenizer FOLDER";
constexpr std::string_view kParquetToLines =
    "python -c \"import pandas; pandas.read_parquet('IN').to_json('OUT.jsonl', orient='records', lines=True)\"";
constexpr std::string_view kArrowToLines =
    "python -c \"import pandas; pandas.read_feather('IN').to_json('OUT.jsonl', orient='records', lines=True)\"";
constexpr std::string_view kDatasetToLines =
    "python -c \"import datasets; datasets.Dataset.from_file('IN').to_json('OUT.jsonl')\"";
constexpr std::string_view kTorchToTensors =
    "python -c \"import torch; from safetensors.torch import save_file; save_file(torch.load('IN'), "
    "'OUT.safetensors')\"";
constexpr std::string_view kNumpyToTensors =
    "python -c \"import numpy; from safetensors.numpy import save_file; save_file(dict(numpy.load('IN')), "
    "'OUT.safetensors')\"";
constexpr std::string_view kHdf5ToTensors =
    "python -c \"import h5py; from safetensors.numpy import save_file; save_file({k: v[()] for k, v in "
    "h5py.File('IN').items()}, 'OUT.safetensors')\"";

struct Mark {
  std::string_view begins, what, command;
};
// Files that begin with these are read by other programs.
constexpr Mark kMarks[] = {
    {"PAR1"sv, "a Parquet file", kParquetToLines},
    {"ARROW1"sv, "an Arrow file", kArrowToLines},
    {"Obj\x01"sv, "an Avro file", ""},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file", kHdf5ToTensors},
    {"GGUF"sv, "a model's weights (GGUF)", ""},
    {"TNTIDX\x00\x00"sv, "an index of fairseq's or of an old Megatron", ""},
    {"SQLite format 3\x00"sv, "a database", ""},
    {"%PDF-"sv, "a PDF document", ""},
    {"\xfd"
     "7zXZ\x00"sv,
     "compressed", "xz -dk IN"},
    {"\x28\xb5\x2f\xfd"sv, "compressed", "zstd -d IN"},
};
// Too short to mean anything in raw tokens.
constexpr Mark kShortMarks[] = {
    {"\x1f\x8b"sv, "compressed", "gunzip -k IN"},
    {"BZh"sv, "compressed", "bunzip2 -k IN"},
    {"\x80\x02"sv, "a pickle, as an old torch.save writes it", kTorchToTensors},
    {"\x80\x03"sv, "a pickle", kTorchToTensors},
    {"\x80\x04"sv, "a pickle", kTorchToTensors},
    {"\x80\x05"sv, "a pickle", kTorchToTensors},
    {"\xff\xff\xff\xff"sv, "an Arrow stream, as Hugging Face's datasets write it", kDatasetToLines},
    {"\xff\xfe"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 IN -o OUT.txt"},
    {"\xfe\xff"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 IN -o OUT.txt"},
};

Status refused(const std::string& path, std::string_view what, std::string_view command) {
  std::string text = "'" + path + "' is " + std::string(what) + ", which is not training data";
  if (command.empty()) return Status::failure("R0213", text);
  const auto put = [](std::string into, std::string_view word, const std::string& by) {
    for (size_t at = into.find(word); at != std::string::npos; at = into.find(word, at + by.size()))
      into.replace(at, word.size(), by);
    return into;
  };
  const std::string out = std::filesystem::path(path).stem().string();
  return Status::failure("R0213",
                         text + "\nhelp: convert it: " + put(put(std::string(command), "OUT", out), "IN", path));
}

// Archives of torch and numpy are told apart by what their first entry is called.
Status refused_zip(const std::string& path, std::string_view begin) {
  const size_t name_bytes = begin.size() < 30 ? 0
                                              : static_cast<unsigned char>(begin[26]) |
                                                    static_cast<size_t>(static_cast<unsigned char>(begin[27])) << 8;
  const std::string_view name = name_bytes == 0 ? "" : begin.substr(30, name_bytes);
  if (name.ends_with(".npy")) return refused(path, "an archive of arrays (.npz)", kNumpyToTensors);
  if (path.ends_with(".pt2") || name.find("archive_format") != name.npos || name.find("/models/") != name.npos ||
      name.find("serialized_exported_program") != name.npos)
    return Status::failure("R0213", "'" + path +
                                        "' is a model that torch.export wrote (.pt2), which is not training data"
                                        "\nhelp: compile it: piperc " +
                                        path + " --strategy FILE -o DIR; and give the data of the training");
  if (name.ends_with("data.pkl") || name.find('/') != name.npos)
    return refused(path, "a zip archive, as torch.save writes it (.pt)", kTorchToTensors);
  return refused(path, "a zip archive", "unzip IN -d OUT");
}

std::optional<size_t> past_spaces(std::string_view text, size_t at) {
  at = text.find_first_not_of(" \t\r\n", at);
  return at == text.npos ? std::nullopt : std::optional(at);
}

// Whether a text begins as a JSON object with a key, or as a list of such objects or of texts.
bool begins_as_json(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  auto at = past_spaces(text, 0);
  if (!at || (text[*at] != '{' && text[*at] != '[')) return false;
  if (text[*at] == '[') {
    at = past_spaces(text, *at + 1);
    if (!at) return false;
    if (text[*at] == '"') return true;
    if (text[*at] != '{') return false;
  }
  at = past_spaces(text, *at + 1);
  if (!at || text[*at] != '"') return false;
  const size_t end = text.find('"', *at + 1);
  if (end == text.npos) return false;
  at = past_spaces(text, end + 1);
  return at && text[*at] == ':';
}

bool begins_as_safetensors(std::string_view begin, int64_t bytes) {
  if (begin.size() < 10) return false;
  uint64_t header = 0;
  std::memcpy(&header, begin.data(), sizeof header);
  return header >= 2 && header <= static_cast<uint64_t>(bytes) - 8 && begin[8] == '{' &&
         (begin[9] == '"' || begin[9] == '}' || begin[9] == ' ');
}

// The first byte that no text has.
std::optional<size_t> no_text(std::string_view begin) {
  const auto found = std::find_if(begin.begin(), begin.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && (byte < 0x08 || byte > 0x0d) && byte != 0x1a && byte != 0x1b;
  });
  return found == begin.end() ? std::nullopt : std::optional(static_cast<size_t>(found - begin.begin()));
}

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::string tokens_beside(const std::string& path) {
  return path.ends_with(".idx") ? path.substr(0, path.size() - 4) + ".bin" : path;
}

std::string index_beside(const std::string& path) {
  if (!path.ends_with(".bin")) return "";
  std::string index = path.substr(0, path.size() - 4) + ".idx";
  return is_there(index) ? index : "";
}

Result<DataForm> recognise(const std::string& path, const std::string& dtype) {
  const auto file = plan::map_file(path);
  if (!file.ok()) return Status::failure("R0201", file.error().message);
  const std::string_view begin = file->text().substr(0, kLookedAt);
  if (begins_as_safetensors(begin, file->bytes)) return DataForm::kSafetensors;
  if (begin.starts_with("\x93NUMPY")) return DataForm::kNpy;
  if (begin.starts_with(kIndexMark)) return DataForm::kMegatron;
  if (begin.starts_with("PK\x03\x04"sv)) return refused_zip(path, begin);
  for (const Mark& mark : kMarks)
    if (begin.starts_with(mark.begins)) return refused(path, mark.what, mark.command);
  if (!index_beside(path).empty()) return DataForm::kMegatron;
  if (!dtype.empty() || path.ends_with(".bin")) return DataForm::kTokens;
  for (const Mark& mark : kShortMarks)
    if (begin.starts_with(mark.begins)) return refused(path, mark.what, mark.command);
  if (begins_as_json(begin)) return refused(path, "JSON", kToTokens);
  if (const auto at = no_text(begin))
    return Status::failure(
        "R0213",
        "'" + path + "' is no text (byte " + std::to_string(*at) + " is " +
            std::to_string(static_cast<int>(begin[*at])) +
            "), nor any other data that are known here: .safetensors, .npy, .bin of tokens, Megatron's "
            ".bin and .idx\nhelp: where it holds raw tokens, say how wide they are: --token-dtype u8|u16|u32|i32");
  return DataForm::kText;
}

}  // namespace piper::data
