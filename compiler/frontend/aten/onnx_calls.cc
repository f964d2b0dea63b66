#include "compiler/frontend/aten/onnx_calls.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/frontend/onnx/node_origin.h"

namespace piper::frontend::aten {
namespace {

constexpr std::string_view kTextKey = "pkg.torch.onnx.fx_node";

DeclaredType declared_type(const onnx::OnnxValueInfo& info) {
  DeclaredType out;
  out.has_dtype = info.elem_type != 0;
  out.dtype = onnx::dtype_of(info.elem_type);
  if (!out.dtype) out.dtype_name = onnx::elem_type_name(info.elem_type);
  out.has_shape = info.has_shape;
  for (const onnx::OnnxDim& d : info.dims) out.dims.push_back({d.value, d.value < 0 ? d.symbol : ""});
  return out;
}

// Nodes with several results carry one text: result i is output i of the node that makes them, or
// the i-th output named getitem.
std::vector<std::pair<std::string, size_t>> result_names(const onnx::OnnxFile& file, const std::vector<size_t>& nodes) {
  std::vector<std::pair<std::string, size_t>> out;
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    const std::vector<std::string>& outputs = file.nodes[*n].outputs;
    if (outputs.size() < 2) continue;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i].empty()) out.emplace_back(outputs[i], i);
    return out;
  }
  for (size_t n : nodes)
    for (const std::string& name : file.nodes[n].outputs)
      if (name.rfind("getitem", 0) == 0) out.emplace_back(name, out.size());
  return out;
}

}  // namespace

bool every_node_has_text(const onnx::OnnxFile& file) {
  if (file.nodes.empty()) return false;
  return std::all_of(file.nodes.begin(), file.nodes.end(), [](const onnx::OnnxNode& n) {
    const std::string_view* text = n.metadata.find(kTextKey);
    return text != nullptr && text->find("call_function[target=") != std::string::npos;
  });
}

Result<Program> read_onnx_calls(const onnx::OnnxFile& file, const ExportMetadata& metadata) {
  struct Group {
    FxCall call;
    std::vector<size_t> nodes;   // ascending
  };
  std::vector<Group> groups;
  std::unordered_map<std::string_view, size_t> by_text;
  for (size_t i = 0; i < file.nodes.size(); ++i) {
    const std::string_view* text = file.nodes[i].metadata.find(kTextKey);
    if (text == nullptr) return Status::failure("P0304", "node '" + file.nodes[i].name + "' carries no FX text");
    const auto [found, fresh] = by_text.emplace(*text, groups.size());
    if (fresh) {
      Result<FxCall> call = parse_fx_text(*text);
      if (!call.ok()) return call.take_status().with_context("node '" + file.nodes[i].name + "'");
      groups.push_back({std::move(call).value(), {}});
    }
    groups[found->second].nodes.push_back(i);
  }
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.nodes.back() < b.nodes.back(); });

  Program out;
  out.may_drop_parts = true;
  for (Group& group : groups) {
    const onnx::OnnxNode& node = file.nodes[group.nodes.back()];
    ProgramCall c;
    c.call = std::move(group.call);
    c.module = onnx::node_scope(node);
    c.line = onnx::node_line(node);
    c.results = result_names(file, group.nodes);
    c.no_grad = metadata.no_grad.count(c.call.name) != 0;
    if (const auto tags = metadata.tags.find(c.call.name); tags != metadata.tags.end()) c.tags = tags->second;
    out.calls.push_back(std::move(c));
  }
  PIPER_RETURN_IF_ERROR(index_calls(out));
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t n : groups[g].nodes)
      for (const std::string& name : file.nodes[n].outputs) out.producer.emplace(name, g);
  out.placeholders = metadata.placeholders;
  for (const SignatureEntry& e : metadata.inputs) out.lost.emplace(e.name, e.target);
  for (const onnx::OnnxValueInfo& v : file.value_info) out.declared[v.name] = declared_type(v);
  for (const onnx::OnnxValueInfo& v : file.inputs) out.declared.emplace(v.name, declared_type(v));
  for (const auto& [name, input] : out.placeholders)
    if (const auto found = out.declared.find(input); found != out.declared.end()) out.declared.emplace(name, found->second);
  for (const onnx::OnnxValueInfo& v : file.outputs) {
    out.declared.emplace(v.name, declared_type(v));
    out.outputs.push_back(v.name);
  }
  return out;
}

}  // namespace piper::frontend::aten
