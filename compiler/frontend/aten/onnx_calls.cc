#include "compiler/frontend/aten/onnx_calls.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <unordered_map>

#include "compiler/frontend/onnx/node_origin.h"
#include "schemas/base/parallel.h"

namespace piper::frontend::aten {
namespace {

DeclaredType declared_type(const onnx::OnnxValueInfo& info) {
  DeclaredType out;
  out.has_dtype = info.elem_type != 0;
  out.dtype = onnx::dtype_of(info.elem_type);
  if (!out.dtype) out.dtype_name = onnx::elem_type_name(info.elem_type);
  out.has_shape = info.has_shape;
  for (const onnx::OnnxDim& d : info.dims) out.dims.push_back({d.value, d.value < 0 ? d.symbol : ""});
  return out;
}

bool is_getitem(const std::string& name) { return name.rfind("getitem", 0) == 0; }

std::vector<std::pair<std::string, size_t>> outputs_in_turn(const onnx::OnnxNode& node) {
  std::vector<std::pair<std::string, size_t>> out;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) out.emplace_back(node.outputs[i], i);
  return out;
}

// getitem_12: 12; getitem: 0.
size_t number_of(const std::string& name) {
  const size_t end = name.rfind('_');
  return end == std::string::npos ? 0 : static_cast<size_t>(std::strtoull(name.c_str() + end + 1, nullptr, 10));
}

// Where the file does not say it. Nodes with several results carry one text: result i is output i of the node that
// makes them, or is named getitem with a number that is i more than that of the first result. `counted`: they are so
// named, and whether the first of them is the call's first is not known. A node with several outputs may also be a part
// of what makes one result, such as a loop, where others are named getitem.
std::vector<std::pair<std::string, size_t>> result_names(const onnx::OnnxFile& file, const std::vector<size_t>& nodes,
                                                         bool& counted) {
  const onnx::OnnxNode* several = nullptr;
  std::vector<std::pair<std::string, size_t>> named;
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    const onnx::OnnxNode& node = file.nodes[*n];
    if (node.outputs.size() < 2) continue;
    if (std::any_of(node.outputs.begin(), node.outputs.end(), is_getitem)) return outputs_in_turn(node);
    if (several == nullptr) several = &node;
  }
  for (size_t n : nodes)
    for (const std::string& name : file.nodes[n].outputs)
      if (is_getitem(name)) named.emplace_back(name, number_of(name));
  if (named.empty()) return several != nullptr ? outputs_in_turn(*several) : named;
  size_t first = named[0].second;
  for (const auto& [name, number] : named) first = std::min(first, number);
  for (auto& [name, number] : named) number -= first;
  counted = true;
  return named;
}

// The running statistics after a batch norm are copies of those before it in ONNX, and the ones of its results that
// nothing reads are not there: which ones are, say the operands (arguments 3 and 4 of the call are results 3 and 4).
void place_statistics(const onnx::OnnxFile& file, const std::vector<size_t>& nodes,
                      const std::map<std::string, std::string>& placeholders, ProgramCall& call) {
  if (call.call.target.find("native_batch_norm_legit_functional") == std::string::npos) return;
  for (size_t n : nodes) {
    const onnx::OnnxNode& node = file.nodes[n];
    if (node.op_type != "Identity") continue;
    for (size_t i = 3; i < std::min<size_t>(5, call.call.args.size()); ++i) {
      const auto weight = placeholders.find(call.call.args[i].text);
      if (node.inputs[0] != (weight == placeholders.end() ? call.call.args[i].text : weight->second)) continue;
      for (auto& [name, index] : call.results)
        if (name == node.outputs[0]) index = i;
    }
  }
}

}  // namespace

bool every_node_has_text(const onnx::OnnxFile& file) {
  if (file.nodes.empty()) return false;
  return std::all_of(file.nodes.begin(), file.nodes.end(), [](const onnx::OnnxNode& n) {
    const std::string_view* text = n.metadata.find(kFxNodeKey);
    return text != nullptr && text->find("call_function[target=") != std::string::npos;
  });
}

Result<Program> read_onnx_calls(const onnx::OnnxFile& file, const ExportMetadata& metadata) {
  struct Group {
    std::string_view text;
    std::vector<size_t> nodes;  // ascending
    ProgramCall call;
    Status status;
  };
  std::vector<Group> groups;
  std::unordered_map<std::string_view, size_t> by_text;
  for (size_t i = 0; i < file.nodes.size(); ++i) {
    const std::string_view* text = file.nodes[i].metadata.find(kFxNodeKey);
    if (text == nullptr) return Status::failure("P0304", "node '" + file.nodes[i].name + "' carries no FX text");
    if (groups.empty() || groups.back().text != *text) {  // nearly always the nodes of a call are together
      const auto [found, fresh] = by_text.emplace(*text, groups.size());
      if (!fresh) {
        groups[found->second].nodes.push_back(i);
        continue;
      }
      groups.emplace_back().text = *text;
    }
    groups.back().nodes.push_back(i);
  }
  parallel_for(groups.size(), [&](size_t g) {
    Group& group = groups[g];
    Result<FxCall> call = parse_fx_text(group.text);
    if (!call.ok()) {
      group.status = call.take_status().with_context("node '" + file.nodes[group.nodes[0]].name + "'");
      return;
    }
    const onnx::OnnxNode& node = file.nodes[group.nodes.back()];
    ProgramCall& c = group.call;
    c.call = std::move(call).value();
    c.module = onnx::node_scope(node);
    c.line = onnx::node_line(node);
    if (metadata.results) {
      if (const auto found = metadata.results->find(c.call.name); found != metadata.results->end())
        c.results = found->second;
    } else {
      c.results = result_names(file, group.nodes, c.results_are_counted);
      place_statistics(file, group.nodes, metadata.placeholders, c);
    }
    c.no_grad = metadata.no_grad.count(c.call.name) != 0;
    if (const auto tags = metadata.tags.find(c.call.name); tags != metadata.tags.end()) c.tags = tags->second;
  });
  for (Group& group : groups) PIPER_RETURN_IF_ERROR(std::move(group.status));
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return groups[a].nodes.back() < groups[b].nodes.back(); });

  Program out;
  out.may_drop_parts = true;
  out.calls.reserve(groups.size());
  for (const size_t g : order) out.calls.push_back(std::move(groups[g].call));
  PIPER_RETURN_IF_ERROR(index_calls(out));
  for (size_t c = 0; c < order.size(); ++c)
    for (size_t n : groups[order[c]].nodes)
      for (const std::string& name : file.nodes[n].outputs) out.producer.emplace(name, c);
  out.placeholders = metadata.placeholders;
  for (const SignatureEntry& e : metadata.inputs) out.lost[e.name] = {e.target, e.kind == "BUFFER"};
  for (const onnx::OnnxValueInfo& v : file.value_info) out.declared[v.name] = declared_type(v);
  for (const onnx::OnnxValueInfo& v : file.inputs) out.declared.emplace(v.name, declared_type(v));
  for (const auto& [name, input] : out.placeholders)
    if (const auto found = out.declared.find(input); found != out.declared.end())
      out.declared.emplace(name, found->second);
  for (const onnx::OnnxValueInfo& v : file.outputs) {
    out.declared.emplace(v.name, declared_type(v));
    out.outputs.push_back(v.name);
  }
  return out;
}

}  // namespace piper::frontend::aten
