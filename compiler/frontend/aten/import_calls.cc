#include "compiler/frontend/aten/import_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/onnx/node_origin.h"

namespace piper::frontend::aten {
namespace {

class Importer {
 public:
  Importer(BoundModel& model, const CallGroups& groups, const ExportMetadata& metadata, diag::Diagnostics& diags)
      : model_(model), groups_(groups), metadata_(metadata), diags_(diags) {
    state_.graph = &model.graph;
    state_.local_batch = model.local_batch;
    for (const auto& [name, value] : model.values) results_[name] = Item::of_tensor(value);
    for (const auto& [placeholder, initializer] : metadata.placeholders)
      if (const auto found = model.values.find(initializer); found != model.values.end()) results_[placeholder] = Item::of_tensor(found->second);
    for (const onnx::OnnxValueInfo& v : model.file->value_info) declared_[v.name] = &v;
    for (const onnx::OnnxValueInfo& v : model.file->outputs) declared_.emplace(v.name, &v);
  }

  Status run() {
    std::vector<std::string> outputs;
    for (const onnx::OnnxValueInfo& v : model_.file->outputs) outputs.push_back(v.name);
    const std::vector<size_t> order = live_order(groups_, outputs);
    PIPER_RETURN_IF_ERROR(check_targets(order));
    for (size_t g : order) PIPER_RETURN_IF_ERROR(import(groups_.groups[g]));
    for (const std::string& name : outputs) {
      const auto found = results_.find(name);
      if (found == results_.end() || !found->second.is_tensor())
        return diags_.error("P0306") << "output '" << name << "' of the model is not a tensor that the model computes";
      model_.graph.outputs.push_back({name, found->second.tensor});
    }
    return Status();
  }

 private:
  const onnx::OnnxNode& node_of(const CallGroup& group) const { return model_.file->nodes[group.nodes.back()]; }

  std::string describe(const CallGroup& group) const {
    const onnx::OnnxNode& node = node_of(group);
    const std::string scope = onnx::node_scope(node), line = onnx::node_line(node);
    std::string out = "'" + group.call.name + "' (" + group.call.target;
    out += scope.empty() ? ", root module" : ", module " + scope;
    return out + (line.empty() ? ")" : ", " + line + ")");
  }

  // Every unknown target is reported once, before anything is imported.
  Status check_targets(const std::vector<size_t>& order) {
    std::set<std::string> unknown;
    for (size_t g : order) {
      const CallGroup& group = groups_.groups[g];
      if (find_row(group.call.target) != nullptr || !unknown.insert(group.call.target).second) continue;
      std::string near;
      for (const std::string& t : resembling_targets(group.call.target)) near += (near.empty() ? "" : ", ") + t;
      diag::InFlight error = diags_.error("P0305");
      error << "node " << describe(group) << ": piper does not know the operator " << group.call.target;
      if (!near.empty()) error.help("supported nearby: " + near);
    }
    return unknown.empty() ? Status() : Status::reported("P0305");
  }

  Result<Item> resolve(const Item& item, const CallGroup& group) {
    if (item.kind == Item::Kind::kRef) {
      const auto found = results_.find(item.text);
      if (found != results_.end()) return found->second;
      for (const SignatureEntry& e : metadata_.inputs)
        if (e.name == item.text)
          return diags_.error("P0310") << "node " << describe(group) << " uses the parameter '" << e.target
                                       << "', which the file has lost";
      return diags_.error("P0304") << "node " << describe(group) << " refers to '%" << item.text
                                   << "', which nothing in the file defines";
    }
    Item out = item;
    for (Item& x : out.list) {
      PIPER_ASSIGN(x, resolve(x, group));
    }
    return out;
  }

  // The exporter drops empty tensors (a cache before its first token) from a cat, but not from its
  // text. The declared shape of the result, which is checked, proves that a part was empty.
  std::vector<Item> without_dropped_parts(const CallGroup& group) const {
    std::vector<Item> args = group.call.args;
    if (group.call.target != "aten.cat.default" || args.empty() || declared_.count(group.call.name) == 0) return args;
    std::vector<Item> kept;
    for (const Item& x : args[0].list)
      if (x.kind != Item::Kind::kRef || results_.count(x.text) != 0) kept.push_back(x);
    if (!kept.empty()) args[0].list = std::move(kept);
    return args;
  }

  Status import(const CallGroup& group) {
    const TableRow& row = *find_row(group.call.target);
    const onnx::OnnxNode& node = node_of(group);
    std::vector<Item> args;
    for (const Item& x : without_dropped_parts(group)) {
      PIPER_ASSIGN(Item value, resolve(x, group));
      args.push_back(std::move(value));
    }
    std::vector<std::pair<std::string, Item>> kwargs;
    for (const auto& [key, x] : group.call.kwargs) {
      PIPER_ASSIGN(Item value, resolve(x, group));
      kwargs.emplace_back(key, std::move(value));
    }
    Result<std::vector<Item>> bound = bind_arguments(row.schema, std::move(args), std::move(kwargs));
    if (!bound.ok()) return diags_.error(bound.error().code) << "node " << describe(group) << ": " << bound.error().message;

    const std::string module = onnx::node_scope(node);
    const ir::ScopeId scope = model_.graph.intern_scope(module);
    const ir::ProvId prov = model_.graph.provenance().model({group.call.name, module, onnx::node_line(node)});
    const size_t values_before = model_.graph.num_values();
    Call call(state_, row.schema, row.kind, std::move(bound).value(), group.call.name, module, scope, prov);
    Item result = row.handler(call);
    if (metadata_.no_grad.count(group.call.name) != 0) stop_gradient(call, result);
    if (const Status status = call.status(); !status.ok())
      return diags_.error(status.error().code.empty() || status.error().code == "P0401" ? "P0306" : status.error().code)
             << "node " << describe(group) << ": " << status.error().message;
    return keep(group, std::move(result), values_before);
  }

  void stop_gradient(Call& call, Item& result) {
    if (result.is_tensor() && is_floating(call.dtype(result.tensor))) result.tensor = call.op(OpKind::kDetach, {result.tensor});
    for (Item& x : result.list) stop_gradient(call, x);
  }

  // Names the results, checks them against the file and files them for later calls.
  Status keep(const CallGroup& group, Item result, size_t values_before) {
    if (result.is_list()) {
      for (const auto& [name, i] : result_names(group, result.list.size())) {
        PIPER_RETURN_IF_ERROR(check_and_name(group, name, result.list[i], values_before));
        results_[name] = result.list[i];
      }
    } else {
      PIPER_RETURN_IF_ERROR(check_and_name(group, group.call.name, result, values_before));
    }
    results_[group.call.name] = std::move(result);
    return Status();
  }

  // Nodes with several results carry one text: result i is output i of the node that makes them, or
  // the i-th output named getitem.
  std::vector<std::pair<std::string, size_t>> result_names(const CallGroup& group, size_t count) const {
    std::vector<std::pair<std::string, size_t>> out;
    for (auto n = group.nodes.rbegin(); n != group.nodes.rend(); ++n) {
      const std::vector<std::string>& outputs = model_.file->nodes[*n].outputs;
      if (outputs.size() < 2) continue;
      for (size_t i = 0; i < std::min(outputs.size(), count); ++i)
        if (!outputs[i].empty()) out.emplace_back(outputs[i], i);
      return out;
    }
    for (size_t n : group.nodes)
      for (const std::string& name : model_.file->nodes[n].outputs)
        if (name.rfind("getitem", 0) == 0 && out.size() < count) out.emplace_back(name, out.size());
    return out;
  }

  Status check_and_name(const CallGroup& group, const std::string& name, const Item& result, size_t values_before) {
    if (!result.is_tensor()) return Status();
    ir::Value& value = model_.graph.value(result.tensor);
    if (const auto found = declared_.find(name); found != declared_.end()) {
      const onnx::OnnxValueInfo& info = *found->second;
      bool fits = info.elem_type == 0 || onnx::dtype_of(info.elem_type) == value.type.dtype;
      // The exporter declares a scalar for every classification loss, unreduced ones too.
      const bool trusted = !(info.dims.empty() && group.call.target.find("_loss.") != std::string::npos);
      if (info.has_shape && trusted) {
        fits = fits && info.dims.size() == value.type.shape.size();
        for (size_t d = 0; fits && d < info.dims.size(); ++d) {
          int64_t extent = info.dims[d].value;
          if (extent < 0) {
            if (info.dims[d].symbol.empty()) continue;
            const Result<int64_t> known = model_.dims.evaluate(info.dims[d].symbol);
            if (!known.ok()) continue;
            extent = known.value();
          }
          fits = extent == value.type.shape[d];
        }
      }
      if (!fits)
        return diags_.error("P0306") << "node " << describe(group) << " gives " << ir::to_string(value.type)
                                     << ", but the file declares " << declared_type(info)
                                     << ": its text and its operators disagree, so it must have been edited";
    }
    if (result.tensor.index >= values_before && used_names_.insert(name).second) value.name = name;
    return Status();
  }

  std::string declared_type(const onnx::OnnxValueInfo& info) const {
    const std::optional<DType> dtype = onnx::dtype_of(info.elem_type);
    std::string out = dtype ? std::string(dtype_name(*dtype)) : onnx::elem_type_name(info.elem_type);
    out += "[";
    for (size_t d = 0; d < info.dims.size(); ++d)
      out += (d > 0 ? ", " : "") + (info.dims[d].value >= 0 ? std::to_string(info.dims[d].value) : info.dims[d].symbol);
    return out + "]";
  }

  BoundModel& model_;
  const CallGroups& groups_;
  const ExportMetadata& metadata_;
  diag::Diagnostics& diags_;
  ImportState state_;
  std::unordered_map<std::string, Item> results_;
  std::unordered_map<std::string, const onnx::OnnxValueInfo*> declared_;
  std::set<std::string> used_names_;
};

}  // namespace

Status import_calls(BoundModel& model, const CallGroups& groups, const ExportMetadata& metadata, diag::Diagnostics& diags) {
  return Importer(model, groups, metadata, diags).run();
}

}  // namespace piper::frontend::aten
