#include "compiler/frontend/aten/import_calls.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "compiler/frontend/aten/fourier.h"
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

class Importer {
 public:
  Importer(BoundModel& model, const Program& program, diag::Diagnostics& diags)
      : model_(model), program_(program), diags_(diags) {
    state_.graph = &model.graph;
    state_.per_piece = model.per_piece;
    for (const auto& [name, value] : model.values) results_[name] = Item::of_tensor(value);
    for (const auto& [placeholder, value] : program.placeholders)
      if (const auto found = model.values.find(value); found != model.values.end())
        results_[placeholder] = Item::of_tensor(found->second);
    for (const auto& [name, expression] : program.sizes)
      if (const Result<int64_t> size = model.dims.evaluate(expression); size.ok()) {
        Item& item = results_.emplace(name, Item::of_int(*size)).first->second;
        if (const Result<int64_t> step = step_extent(expression); step.ok()) vary(item, static_cast<double>(*step));
      }
  }

  Status run() {
    const std::vector<size_t> order = live_order(program_);
    PIPER_ASSIGN(const std::vector<const TableRow*> rows, find_rows(order));
    for (size_t i = 0; i < order.size(); ++i) PIPER_RETURN_IF_ERROR(import(program_.calls[order[i]], *rows[i]));
    for (const std::string& name : program_.outputs) {
      const auto found = results_.find(name);
      if (found == results_.end() || !found->second.is_tensor())
        return diags_.error("P0306") << "output '" << name << "' of the model is not a tensor that the model computes";
      model_.graph.outputs.push_back({name, found->second.tensor});
    }
    return Status();
  }

 private:
  // Every unknown target is reported once, before anything is imported.
  Result<std::vector<const TableRow*>> find_rows(const std::vector<size_t>& order) {
    std::set<std::string> unknown;
    std::vector<const TableRow*> rows;
    rows.reserve(order.size());
    for (size_t i : order) {
      const ProgramCall& c = program_.calls[i];
      rows.push_back(find_row(c.call.target));
      if (rows.back() != nullptr || !unknown.insert(c.call.target).second) continue;
      std::string near;
      for (const std::string& t : resembling_targets(c.call.target)) near += (near.empty() ? "" : ", ") + t;
      diag::InFlight error = diags_.error("P0305");
      error << "node " << describe_call(c) << ": piper does not know the operator " << c.call.target;
      if (!near.empty())
        error.help("supported nearby: " + near +
                   "; `python tools/piper_export.py --decompose FILE -o NEW` takes it apart where PyTorch does so");
    }
    if (!unknown.empty()) return Status::reported("P0305");
    return rows;
  }

  // Puts results of calls for references to them.
  Status resolve(Item& item, const ProgramCall& c) {
    if (item.kind == Item::Kind::kRef) {
      if (const auto found = results_.find(item.text); found != results_.end()) {
        item = found->second;
        return Status();
      }
      if (const auto lost = program_.lost.find(item.text); lost != program_.lost.end()) {
        if (lost->second.is_buffer)
          return diags_.error("P0306") << "node " << describe_call(c) << " uses the buffer '" << lost->second.name
                                       << "', which its ONNX operators have no place for";
        return diags_.error("P0310") << "node " << describe_call(c) << " uses the parameter '" << lost->second.name
                                     << "', which the file has lost";
      }
      return diags_.error("P0304") << "node " << describe_call(c) << " refers to '%" << item.text
                                   << "', which nothing in the file defines";
    }
    for (Item& x : item.list) PIPER_RETURN_IF_ERROR(resolve(x, c));
    return Status();
  }

  // The exporter drops empty tensors (a cache before its first token) from a cat, but not from its
  // text. The declared shape of the result, which is checked, proves that a part was empty.
  std::vector<Item> without_dropped_parts(const ProgramCall& c) const {
    std::vector<Item> args = c.call.args;
    if (!program_.may_drop_parts || c.call.target != "aten.cat.default" || args.empty() ||
        program_.declared.count(c.call.name) == 0)
      return args;
    std::vector<Item> kept;
    for (const Item& x : args[0].list)
      if (x.kind != Item::Kind::kRef || results_.count(x.text) != 0) kept.push_back(x);
    if (!kept.empty()) args[0].list = std::move(kept);
    return args;
  }

  Status import(const ProgramCall& c, const TableRow& row) {
    std::vector<Item> args = without_dropped_parts(c);
    for (Item& x : args) PIPER_RETURN_IF_ERROR(resolve(x, c));
    std::vector<std::pair<std::string, Item>> kwargs = c.call.kwargs;
    for (auto& [key, x] : kwargs) PIPER_RETURN_IF_ERROR(resolve(x, c));
    Result<std::vector<Item>> bound = bind_arguments(row.schema, std::move(args), std::move(kwargs));
    if (!bound.ok())
      return diags_.error(bound.error().code) << "node " << describe_call(c) << ": " << bound.error().message;

    const ir::ScopeId scope = model_.graph.intern_scope(c.module);
    const ir::ProvId prov = model_.graph.provenance().model({c.call.name, c.module, c.line});
    const size_t values_before = model_.graph.num_values();
    std::optional<std::vector<Item>> of_step = with_step_numbers(*bound);
    const bool of_batch = std::any_of(bound->begin(), bound->end(), [](const Item& x) { return x.of_batch; });
    const size_t complex = first_complex(*bound);
    std::vector<Item> imaginary;
    if (complex == 0 && is_part_wise(row.schema.target)) {
      Item parts = (*bound)[0];
      if (parts.list[1].is_tensor()) {
        imaginary = *bound;
        imaginary[0] = parts.list[1];
      }
      (*bound)[0] = parts.list[0];
    }
    const bool by_parts = complex == 0 && (*bound)[0].is_tensor();
    Call call(state_, row.schema, row.kind, std::move(bound).value(), c.call.name, c.module, scope, prov);
    const Handler own = complex <= 1 ? of_complex(row.schema.target) : nullptr;
    Item result = call.made_by(own != nullptr ? own : row.handler);
    if (by_parts && call.status().ok()) PIPER_RETURN_IF_ERROR(join_parts(c, row, result, std::move(imaginary)));
    result.of_batch = result.is_number() && of_batch;
    if (result.is_number() && of_step) {
      Call again(state_, row.schema, row.kind, *std::move(of_step), c.call.name, c.module, scope, prov);
      vary(result, again.made_by(row.handler).number());
    }
    if (result.is_number() && !c.call.args.empty()) vary_by_declaration(c, result);
    if (c.no_grad) stop_gradient(call, result);
    if (const Status status = call.status(); !status.ok())
      return diags_.error(status.error().code.empty() || status.error().code == "P0401" ? "P0306" : status.error().code)
             << "node " << describe_call(c) << ": " << status.error().message;
    return keep(c, std::move(result), values_before);
  }

  // The first argument that is a complex number, of the first two; 2 where none is.
  static size_t first_complex(const std::vector<Item>& bound) {
    const size_t end = std::min<size_t>(bound.size(), 2);
    for (size_t i = 0; i < end; ++i)
      if (is_complex(bound[i])) return i;
    return 2;
  }

  // What a call gives of the imaginary part beside what it gives of the real one.
  Status join_parts(const ProgramCall& c, const TableRow& row, Item& result, std::vector<Item> imaginary) {
    Item other;
    if (!imaginary.empty()) {
      Call call(state_, row.schema, row.kind, std::move(imaginary), c.call.name + ".imaginary", c.module,
                model_.graph.intern_scope(c.module), model_.graph.provenance().model({c.call.name, c.module, c.line}));
      other = call.made_by(row.handler);
      if (const Status status = call.status(); !status.ok())
        return diags_.error("P0306") << "node " << describe_call(c) << ": " << status.error().message;
    }
    result = Item::of_list({std::move(result), std::move(other)});
    return Status();
  }

  // ---- numbers made of the batch's extent

  Result<int64_t> step_extent(const std::string& expression) const {
    return model_.step_extent ? model_.step_extent(expression) : model_.dims.evaluate(expression);
  }

  static void vary(Item& number, double whole) {
    number.varies = whole != number.number();
    number.whole = whole;
  }

  // The arguments with every number as it is in the step's batch; nullopt where that changes none.
  static std::optional<std::vector<Item>> with_step_numbers(const std::vector<Item>& args) {
    if (std::none_of(args.begin(), args.end(), [](const Item& x) { return x.varies; })) return std::nullopt;
    std::vector<Item> out = args;
    for (Item& x : out) {
      if (!x.varies) continue;
      switch (x.kind) {
        case Item::Kind::kInt: x.integer = static_cast<int64_t>(x.whole); break;
        case Item::Kind::kFloat: x.real = x.whole; break;
        case Item::Kind::kBool: x.flag = x.whole != 0; break;
        case Item::Kind::kNone:
        case Item::Kind::kText:
        case Item::Kind::kRef:
        case Item::Kind::kTensor:
        case Item::Kind::kList: break;
      }
      x.varies = false;
    }
    return out;
  }

  // An extent that a call reads from a tensor: the file says how it is made of symbols.
  void vary_by_declaration(const ProgramCall& c, Item& extent) const {
    const bool one = c.call.target == "aten.sym_size.int";
    if ((!one && c.call.target != "aten.sym_numel.default") || c.call.args[0].kind != Item::Kind::kRef) return;
    const auto found = program_.declared.find(c.call.args[0].text);
    if (found == program_.declared.end() || !found->second.has_shape) return;
    const std::vector<DeclaredDim>& dims = found->second.dims;
    int64_t wanted = 0;
    if (one) {
      if (c.call.args.size() < 2 || c.call.args[1].kind != Item::Kind::kInt) return;
      wanted = c.call.args[1].integer + (c.call.args[1].integer < 0 ? static_cast<int64_t>(dims.size()) : 0);
    }
    double whole = 1;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (one && static_cast<int64_t>(d) != wanted) continue;
      extent.of_batch = extent.of_batch || dims[d].extent < 0;
      if (dims[d].extent >= 0) whole *= static_cast<double>(dims[d].extent);
      else if (const Result<int64_t> known = step_extent(dims[d].expression); known.ok())
        whole *= static_cast<double>(known.value());
      else return;
    }
    vary(extent, whole);
  }

  void stop_gradient(Call& call, Item& result) {
    if (result.is_tensor() && is_floating(call.dtype(result.tensor)))
      result.tensor = call.op(OpKind::kDetach, {result.tensor});
    for (Item& x : result.list) stop_gradient(call, x);
  }

  // Whether results that are counted from the first one that is read could only be those from the call's first on: all
  // later places have other types.
  bool is_known_place(const ProgramCall& c, const Item& result) const {
    size_t last = 0;
    for (const auto& [name, i] : c.results) last = std::max(last, i);
    if (last >= result.list.size()) return false;
    const auto type = [&](size_t i) {
      const Item& x = result.list[i];
      return x.is_tensor() ? model_.graph.type(x.tensor) : ir::TensorType();
    };
    for (size_t later = 1; last + later < result.list.size(); ++later)
      if (std::all_of(c.results.begin(), c.results.end(),
                      [&](const auto& named) { return type(named.second) == type(named.second + later); }))
        return false;
    return true;
  }

  // Names the results, checks them against the file and files them for later calls.
  Status keep(const ProgramCall& c, Item result, size_t values_before) {
    if (result.is_list()) {
      if (c.results_are_counted && !is_known_place(c, result))
        return diags_.error("P0304") << "node " << describe_call(c) << " gives " << result.list.size()
                                     << " results, and the file does not say which of them '" << c.results[0].first
                                     << "' is: export it with tools/piper_export.py";
      for (const auto& [name, i] : c.results) {
        if (i >= result.list.size()) continue;
        PIPER_RETURN_IF_ERROR(check_and_name(c, name, result.list[i], values_before));
        results_[name] = result.list[i];
      }
    } else {
      PIPER_RETURN_IF_ERROR(check_and_name(c, c.call.name, result, values_before));
    }
    results_[c.call.name] = std::move(result);
    return Status();
  }

  Status check_and_name(const ProgramCall& c, const std::string& name, const Item& result, size_t values_before) {
    if (!result.is_tensor()) return Status();
    ir::Value& value = model_.graph.value(result.tensor);
    const bool from_untrusted =
        std::any_of(c.refs.begin(), c.refs.end(), [&](const std::string& ref) { return untrusted_.count(ref) != 0; });
    const auto found = program_.declared.find(name);
    if (found == program_.declared.end() && from_untrusted && !value.type.shape.empty()) untrusted_.insert(name);
    if (found != program_.declared.end()) {
      const DeclaredType& declared = found->second;
      bool fits = !declared.has_dtype || declared.dtype == value.type.dtype;
      // torch's ONNX exporter declares a scalar for every classification loss, unreduced ones too.
      // What is computed from them may be declared a scalar, too.
      const bool trusted =
          !declared.dims.empty() || (c.call.target.find("_loss.") == std::string::npos && !from_untrusted);
      if ((!trusted || from_untrusted) && !value.type.shape.empty()) untrusted_.insert(name);
      if (declared.has_shape && trusted) {
        fits = fits && declared.dims.size() == value.type.shape.size();
        for (size_t d = 0; fits && d < declared.dims.size(); ++d) {
          int64_t extent = declared.dims[d].extent;
          if (extent < 0) {
            if (declared.dims[d].expression.empty()) continue;
            const Result<int64_t> known = model_.dims.evaluate(declared.dims[d].expression);
            if (!known.ok()) continue;
            extent = known.value();
          }
          fits = extent == value.type.shape[d];
        }
      }
      if (!fits)
        return diags_.error("P0306")
               << "node " << describe_call(c) << " gives " << ir::to_string(value.type) << ", but the file declares "
               << to_string(declared)
               << ": the call and its declared result disagree, so the file must have been edited";
    }
    if (result.tensor.index >= values_before && used_names_.insert(name).second) value.name = name;
    return Status();
  }

  static std::string to_string(const DeclaredType& type) {
    std::string out = type.dtype ? std::string(dtype_name(*type.dtype)) : type.dtype_name;
    out += "[";
    for (size_t d = 0; d < type.dims.size(); ++d)
      out += (d > 0 ? ", " : "") +
             (type.dims[d].extent >= 0 ? std::to_string(type.dims[d].extent) : type.dims[d].expression);
    return out + "]";
  }

  BoundModel& model_;
  const Program& program_;
  diag::Diagnostics& diags_;
  ImportState state_;
  std::unordered_map<std::string, Item> results_;
  std::set<std::string> used_names_;
  std::set<std::string> untrusted_;  // names that the file declares scalars though they need not be
};

}  // namespace

Status import_calls(BoundModel& model, const Program& program, diag::Diagnostics& diags) {
  return Importer(model, program, diags).run();
}

}  // namespace piper::frontend::aten
