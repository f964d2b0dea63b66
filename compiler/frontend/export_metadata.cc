#include "compiler/frontend/export_metadata.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace piper::frontend {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

const std::string_view* note(const onnx::OnnxFile& file, std::string_view key) {
  const std::string_view* text = file.model_metadata.find(key);
  return text != nullptr ? text : file.graph_metadata.find(key);
}

// Lines such as `p_wte_weight: PARAMETER target='wte.weight'` below "# inputs" and "# outputs".
void read_signature(std::string_view text, ExportMetadata& out) {
  std::vector<SignatureEntry>* section = &out.inputs;
  for (const std::string& line : lines_of(text)) {
    if (line == "# inputs") section = &out.inputs;
    if (line == "# outputs") section = &out.outputs;
    const size_t colon = line.find(": ");
    if (line[0] == '#' || colon == std::string::npos) continue;
    SignatureEntry entry;
    entry.name = line.substr(0, colon);
    const size_t end = line.find(' ', colon + 2);
    entry.kind = line.substr(colon + 2, end == std::string::npos ? end : end - colon - 2);
    const size_t quote = line.find("target='", colon);
    if (quote != std::string::npos) {
      const size_t close = line.find('\'', quote + 8);
      if (close != std::string::npos) entry.target = line.substr(quote + 8, close - quote - 8);
    }
    entry.persistent = line.find(" persistent=True", colon) != std::string::npos;
    section->push_back(std::move(entry));
  }
}

// "PP=0 EP=1".
ir::TagSet read_tags(const std::string& text) {
  ir::TagSet tags;
  for (const std::string& word : words_of(text)) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    tags.push_back({word.substr(0, equals), static_cast<int32_t>(std::strtol(word.c_str() + equals + 1, nullptr, 10))});
  }
  std::sort(tags.begin(), tags.end(), [](const ir::TagValue& a, const ir::TagValue& b) { return a.tag < b.tag; });
  return tags;
}

// The least lower bound of `{s72: VR[2, int_oo], s38: VR[2, 48]}`; 1 where there is none.
int64_t least_bound(std::string_view text) {
  int64_t least = -1;
  for (size_t at = text.find("VR["); at != std::string::npos; at = text.find("VR[", at + 3)) {
    int64_t v = 0;
    size_t i = at + 3;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && v < (int64_t{1} << 40); ++i)
      v = 10 * v + (text[i] - '0');
    if (i > at + 3 && (least < 0 || v < least)) least = v;
  }
  return std::max<int64_t>(least, 1);
}

}  // namespace

ExportMetadata read_export_metadata(const onnx::OnnxFile& file) {
  ExportMetadata out;
  if (const std::string_view* text = file.graph_metadata.find("pkg.torch.export.ExportedProgram.graph_signature")) {
    out.has_signature = true;
    read_signature(*text, out);
  }
  if (const std::string_view* text = file.graph_metadata.find("pkg.torch.export.ExportedProgram.range_constraints"))
    out.declared_min_batch = least_bound(*text);

  std::set<std::string> initializers;
  for (const onnx::OnnxTensor& t : file.initializers) initializers.insert(t.name);
  for (const SignatureEntry& e : out.inputs)
    if (initializers.count(e.target) != 0) out.placeholders[e.name] = e.target;
  const auto original = [&](const std::string& name, const onnx::Metadata& metadata) {
    const std::string_view* fx = metadata.find("pkg.torch.onnx.original_node_name");
    if (fx != nullptr && initializers.count(name) != 0) out.placeholders[std::string(*fx)] = name;
  };
  for (const onnx::OnnxValueInfo& v : file.value_info) original(v.name, v.metadata);
  for (const onnx::OnnxTensor& t : file.initializers) original(t.name, t.metadata);

  if (const std::string_view* text = note(file, "piper.tags"))
    for (const std::string& line : lines_of(*text))
      if (const size_t space = line.find(' '); space != std::string::npos)
        out.tags[line.substr(0, space)] = read_tags(line.substr(space + 1));
  if (const std::string_view* text = note(file, "piper.frozen"))
    for (const std::string& line : lines_of(*text)) out.frozen.insert(line);
  if (const std::string_view* text = note(file, "piper.no_grad"))
    for (const std::string& line : lines_of(*text)) out.no_grad.insert(line);
  if (const std::string_view* text = note(file, "piper.results")) {
    out.results.emplace();
    for (const std::string& line : lines_of(*text))
      if (const std::vector<std::string> words = words_of(line); words.size() >= 2)
        for (size_t i = 1; i < words.size(); ++i)
          if (words[i] != "-") (*out.results)[words[0]].emplace_back(words[i], i - 1);
  }
  if (const std::string_view* text = note(file, "piper.tied"))
    for (const std::string& line : lines_of(*text)) out.tied.push_back(words_of(line));
  if (const std::string_view* text = note(file, "piper.one_sample")) out.same_with_one_sample = *text == "same";
  return out;
}

}  // namespace piper::frontend
