#include "compiler/frontend/aten/call_groups.h"

#include <algorithm>
#include <unordered_map>

namespace piper::frontend::aten {
namespace {

constexpr std::string_view kTextKey = "pkg.torch.onnx.fx_node";

}  // namespace

bool every_node_has_text(const onnx::OnnxFile& file) {
  if (file.nodes.empty()) return false;
  return std::all_of(file.nodes.begin(), file.nodes.end(), [](const onnx::OnnxNode& n) {
    const std::string* text = n.metadata.find(kTextKey);
    return text != nullptr && text->find("call_function[target=") != std::string::npos;
  });
}

Result<CallGroups> group_calls(const onnx::OnnxFile& file) {
  CallGroups out;
  std::unordered_map<std::string_view, size_t> by_text;
  for (size_t i = 0; i < file.nodes.size(); ++i) {
    const std::string* text = file.nodes[i].metadata.find(kTextKey);
    if (text == nullptr) return Status::failure("P0304", "node '" + file.nodes[i].name + "' carries no FX text");
    const auto [found, fresh] = by_text.emplace(*text, out.groups.size());
    if (fresh) {
      Result<FxCall> call = parse_fx_text(*text);
      if (!call.ok()) return call.take_status().with_context("node '" + file.nodes[i].name + "'");
      CallGroup group;
      group.call = std::move(call).value();
      for (const Item& x : group.call.args) collect_refs(x, group.refs);
      for (const auto& [key, x] : group.call.kwargs) collect_refs(x, group.refs);
      out.groups.push_back(std::move(group));
    }
    out.groups[found->second].nodes.push_back(i);
  }
  std::sort(out.groups.begin(), out.groups.end(), [](const CallGroup& a, const CallGroup& b) { return a.nodes.back() < b.nodes.back(); });
  for (size_t g = 0; g < out.groups.size(); ++g)
    for (size_t n : out.groups[g].nodes)
      for (const std::string& name : file.nodes[n].outputs) out.producer.emplace(name, g);
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t g = 0; g < out.groups.size(); ++g) {
    const std::string& name = out.groups[g].call.name;
    if (!by_name.emplace(name, g).second)
      return Status::failure("P0304", "nodes carry two different texts of the call '%" + name + "': the file must have been edited");
    out.producer[name] = g;
  }
  return out;
}

std::vector<size_t> live_order(const CallGroups& groups, const std::vector<std::string>& outputs) {
  const size_t n = groups.groups.size();
  std::vector<std::vector<size_t>> needs(n);
  for (size_t g = 0; g < n; ++g)
    for (const std::string& name : groups.groups[g].refs) {
      const auto found = groups.producer.find(name);
      if (found != groups.producer.end() && found->second != g) needs[g].push_back(found->second);
    }
  std::vector<bool> live(n, false), placed(n, false), entered(n, false);
  std::vector<size_t> work;
  for (const std::string& name : outputs)
    if (const auto found = groups.producer.find(name); found != groups.producer.end()) work.push_back(found->second);
  while (!work.empty()) {
    const size_t g = work.back();
    work.pop_back();
    if (live[g]) continue;
    live[g] = true;
    work.insert(work.end(), needs[g].begin(), needs[g].end());
  }
  std::vector<size_t> order;
  for (size_t start = 0; start < n; ++start) {
    if (!live[start] || placed[start]) continue;
    work.assign(1, start);
    while (!work.empty()) {
      const size_t g = work.back();
      if (placed[g] || entered[g]) {  // everything it needs is placed, or stands on the stack in a cycle
        work.pop_back();
        if (!placed[g]) {
          placed[g] = true;
          order.push_back(g);
        }
        continue;
      }
      entered[g] = true;
      for (size_t need : needs[g])
        if (!placed[need] && !entered[need]) work.push_back(need);
    }
  }
  return order;
}

}  // namespace piper::frontend::aten
