#include "compiler/frontend/onnx/node_origin.h"

#include <algorithm>
#include <vector>

#include "compiler/frontend/python_line.h"

namespace piper::frontend::onnx {
namespace {

constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kStackKey = "pkg.torch.onnx.stack_trace";
constexpr std::string_view kNoScope = "_empty_nn_module_stack_from_metadata_hook";

// The strings of a Python list literal: "['', 'h.0', \"x\"]".
std::vector<std::string> python_strings(std::string_view text) {
  std::vector<std::string> out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char quote = text[i];
    if (quote != '\'' && quote != '"') continue;
    std::string word;
    for (++i; i < text.size() && text[i] != quote; ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      word += text[i];
    }
    out.push_back(std::move(word));
  }
  return out;
}

}  // namespace

std::string node_scope(const OnnxNode& node) {
  if (const std::string_view* scopes = node.metadata.find(kScopesKey)) {
    const std::vector<std::string> path = python_strings(*scopes);
    if (path.size() < 2 || path[path.size() - 2] == kNoScope) return "";
    return path[path.size() - 2];
  }
  if (node.name.empty() || node.name[0] != '/') return "";
  const size_t last = node.name.rfind('/');
  if (last == 0) return "";
  std::string path = node.name.substr(1, last - 1);
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

std::string node_fx_name(const OnnxNode& node) {
  const std::string_view* scopes = node.metadata.find(kScopesKey);
  if (scopes == nullptr) return "";
  const std::vector<std::string> path = python_strings(*scopes);
  return path.empty() ? "" : path.back();
}

std::string node_line(const OnnxNode& node) {
  const std::string_view* trace = node.metadata.find(kStackKey);
  return trace == nullptr ? "" : python_line(*trace);
}

std::string describe_node(const OnnxNode& node) {
  std::string name = node.name;
  if (name.empty() && !node.outputs.empty()) name = "making " + node.outputs[0];
  std::string out = "node '" + name.substr(0, 200) + "' (" + node.op_type.substr(0, 80);
  const std::string scope = node_scope(node), line = node_line(node);
  if (!scope.empty()) out += ", module '" + scope.substr(0, 200) + "'";
  if (!line.empty()) out += ", " + line;
  return out + ")";
}

}  // namespace piper::frontend::onnx
