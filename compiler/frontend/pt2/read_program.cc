#include "compiler/frontend/pt2/read_program.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/frontend/pt2/json_integer.h"
#include "compiler/frontend/pt2/payloads.h"
#include "compiler/frontend/pt2/sym_expr.h"
#include "compiler/frontend/python_line.h"

namespace piper::frontend::pt2 {
namespace {

using Json = nlohmann::json;
using aten::Item;

constexpr int64_t kSchema = 8;
constexpr int kMostRegions = 32;
constexpr std::string_view kNoModule = "_empty_nn_module_stack_from_metadata_hook";

// Higher-order operators whose sub-graph may be run in place, and how many arguments are before the graph.
constexpr std::pair<std::string_view, size_t> kInlined[] = {{"higher_order.wrap_with_set_grad_enabled", 1},
                                                            {"higher_order.wrap_with_autocast", 4},
                                                            {"higher_order.tag_activation_checkpoint", 0},
                                                            {"higher_order.wrap_activation_checkpoint", 0},
                                                            {"higher_order.invoke_subgraph", 0},
                                                            {"higher_order.wrap", 0}};

// Names of a graph that differ from those in the flat program.
using Scope = std::map<std::string, std::string>;

// Where a sub-graph is called from.
struct Region {
  bool no_grad = false;
  std::string module;
  int depth = 0;
};

Result<double> real_number(const Json& x) {
  if (x.is_number()) return x.get<double>();
  if (x.is_string()) {
    const std::string text = x.get<std::string>();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  return Status::failure("P0301", std::string("a value of type ") + x.type_name() + " is where a number should be");
}

// "key,path,type;key,path,type": the path of the last entry.
std::string innermost_module(const std::string& stack) {
  const size_t start = stack.rfind(';') == std::string::npos ? 0 : stack.rfind(';') + 1;
  const size_t first = stack.find(',', start);
  if (first == std::string::npos) return "";
  const size_t second = stack.find(',', first + 1);
  const std::string path = stack.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  return path == kNoModule ? "" : path;
}

class Reader {
 public:
  Reader(const std::map<std::string, std::string>& names, ExportedProgram& out) : names_(names), out_(out) {}

  Status read(const Json& root) {
    const int64_t major = integer(root.at("schema_version").at("major"));
    if (major != kSchema)
      return Status::failure("P0315", "it is written in schema " + std::to_string(major) +
                                          " of torch.export; piper reads schema " + std::to_string(kSchema) +
                                          " (torch 2.9 and later)");
    const Json& module = root.at("graph_module");
    PIPER_RETURN_IF_ERROR(read_signature(module.at("signature")));
    for (const auto& [symbol, range] : root.at("range_constraints").items()) {
      SymbolRange r;
      if (range.contains("min_val") && range.at("min_val").is_number_integer()) r.least = integer(range.at("min_val"));
      if (range.contains("max_val") && range.at("max_val").is_number_integer()) r.most = integer(range.at("max_val"));
      const auto known = names_.find(symbol);
      out_.ranges[known == names_.end() ? symbol : known->second] = r;
    }
    const Json& graph = module.at("graph");
    for (const Json& input : graph.at("inputs"))
      if (const std::string name = argument_name(input); !name.empty()) used_.insert(name);
    Scope scope;
    PIPER_RETURN_IF_ERROR(read_graph(graph, scope, Region()));
    for (auto& [buffer, value] : out_.changed_buffers) value = renamed(scope, value);
    for (std::string& name : out_.program.outputs) name = renamed(scope, name);
    return Status();
  }

 private:
  static std::string renamed(const Scope& scope, const std::string& name) {
    const auto found = scope.find(name);
    return found == scope.end() ? name : found->second;
  }

  // The name of a tensor or size that stands alone; "" for everything else.
  static std::string argument_name(const Json& argument) {
    for (const char* key : {"as_tensor", "as_token"})
      if (argument.contains(key)) return argument.at(key).at("name").get<std::string>();
    for (const char* key : {"as_sym_int", "as_sym_float", "as_sym_bool"})
      if (argument.contains(key) && argument.at(key).contains("as_name"))
        return argument.at(key).at("as_name").get<std::string>();
    return "";
  }

  Status read_signature(const Json& signature) {
    for (const Json& spec : signature.at("input_specs")) {
      Placeholder p;
      if (spec.contains("parameter")) {
        p = {Placeholder::Kind::kParameter, spec.at("parameter").at("arg").at("name").get<std::string>(),
             spec.at("parameter").at("parameter_name").get<std::string>()};
      } else if (spec.contains("buffer")) {
        p = {Placeholder::Kind::kBuffer, spec.at("buffer").at("arg").at("name").get<std::string>(),
             spec.at("buffer").at("buffer_name").get<std::string>(), spec.at("buffer").value("persistent", false)};
      } else if (spec.contains("tensor_constant")) {
        const Json& constant = spec.at("tensor_constant");
        p = {Placeholder::Kind::kConstant, constant.at("arg").at("name").get<std::string>(),
             constant.at("tensor_constant_name").get<std::string>()};
      } else if (spec.contains("user_input") && spec.at("user_input").at("arg").contains("as_tensor")) {
        p.name = spec.at("user_input").at("arg").at("as_tensor").at("name").get<std::string>();
      } else {
        continue;
      }
      out_.placeholders.push_back(std::move(p));
    }
    for (const Json& spec : signature.at("output_specs")) {
      if (spec.contains("user_output") && spec.at("user_output").at("arg").contains("as_tensor"))
        out_.program.outputs.push_back(spec.at("user_output").at("arg").at("as_tensor").at("name").get<std::string>());
      if (spec.contains("loss_output"))
        out_.program.outputs.push_back(spec.at("loss_output").at("arg").at("name").get<std::string>());
      if (spec.contains("buffer_mutation"))
        out_.changed_buffers[spec.at("buffer_mutation").at("buffer_name").get<std::string>()] =
            spec.at("buffer_mutation").at("arg").at("name").get<std::string>();
    }
    if (out_.program.outputs.empty()) return Status::failure("P0301", "its program has no output");
    return Status();
  }

  Status read_graph(const Json& graph, Scope& scope, const Region& region) {
    if (region.depth > kMostRegions) return Status::failure("P0301", "its sub-graphs are nested too deep");
    for (const Json& node : graph.at("nodes")) PIPER_RETURN_IF_ERROR(read_node(node, scope, region));
    for (const auto& [name, meta] : graph.at("tensor_values").items())
      out_.program.declared.emplace(renamed(scope, name), declared_type(meta));
    for (const auto& [name, size] : graph.at("sym_int_values").items()) {
      if (!size.contains("as_expr")) {
        if (size.contains("as_int"))
          out_.program.sizes.emplace(renamed(scope, name), std::to_string(integer(size.at("as_int"))));
        continue;
      }
      std::string text = expression(size);
      if (!text.empty()) out_.program.sizes.emplace(renamed(scope, name), std::move(text));
    }
    return Status();
  }

  std::string expression(const Json& size) const {
    return extent_expression(size.at("as_expr").at("expr_str").get<std::string>(), names_);
  }

  aten::DeclaredType declared_type(const Json& meta) const {
    aten::DeclaredType out;
    const int64_t dtype = integer(meta.at("dtype"));
    out.has_dtype = out.has_shape = true;
    out.dtype = dtype_of_scalar_type(dtype);
    if (!out.dtype) out.dtype_name = scalar_type_name(dtype);
    for (const Json& size : meta.at("sizes")) {
      if (size.contains("as_int")) out.dims.push_back({integer(size.at("as_int")), ""});
      else out.dims.push_back({-1, expression(size)});
    }
    return out;
  }

  // A name of this graph in the flat program; another one where it is taken.
  std::string define(Scope& scope, const std::string& name) {
    std::string own = name;
    for (int64_t i = 1; !used_.insert(own).second; ++i) own = name + "_" + std::to_string(i);
    if (own != name) scope[name] = own;
    else scope.erase(name);
    return own;
  }

  Status read_node(const Json& node, Scope& scope, const Region& region) {
    aten::ProgramCall c;
    c.call.target = aten::plain_target(node.at("target").get<std::string>());
    read_metadata(node.at("metadata"), region, c);
    const Json& outputs = node.at("outputs");
    std::vector<std::string> results;  // of a call that gives several; "" where it is none
    bool is_list = outputs.size() > 1;
    for (const Json& output : outputs) {
      if (output.contains("as_tensors")) {
        is_list = true;
        for (const Json& x : output.at("as_tensors")) results.push_back(x.at("name").get<std::string>());
      } else {
        results.push_back(argument_name(output));
      }
    }
    for (const auto& [target, before] : kInlined)
      if (c.call.target == target) return inline_graph(node, before, c, results, scope, region);
    if (results.empty()) return Status();  // assertions
    for (const Json& input : node.at("inputs")) {
      Result<Item> value = item(input.at("arg"), scope);
      if (!value.ok()) return value.take_status().with_context("node " + describe_call(c));
      const bool keyword =
          input.contains("kind") && input.at("kind").is_number_integer() && integer(input.at("kind")) == 2;
      if (keyword) c.call.kwargs.emplace_back(input.at("name").get<std::string>(), std::move(value).value());
      else c.call.args.push_back(std::move(value).value());
    }
    if (is_list) {
      const bool named = node.contains("name") && node.at("name").is_string();
      const std::string own = named ? node.at("name").get<std::string>() : c.call.target;
      // The call itself is no value: its name must not hide that of a result.
      Scope unused;
      c.call.name =
          define(unused, std::find(results.begin(), results.end(), own) == results.end() ? own : own + "_results");
      for (size_t i = 0; i < results.size(); ++i)
        if (!results[i].empty()) c.results.emplace_back(define(scope, results[i]), i);
    } else {
      if (results[0].empty()) return Status();
      c.call.name = define(scope, results[0]);
    }
    out_.program.calls.push_back(std::move(c));
    return Status();
  }

  void read_metadata(const Json& metadata, const Region& region, aten::ProgramCall& c) const {
    const auto text = [&](const char* key) {
      return metadata.contains(key) && metadata.at(key).is_string() ? metadata.at(key).get<std::string>()
                                                                    : std::string();
    };
    c.module = innermost_module(text("nn_module_stack"));
    if (c.module.empty()) c.module = region.module;
    c.line = python_line(text("stack_trace"));
    c.no_grad = region.no_grad;
    const Json custom = Json::parse(text("custom").empty() ? "{}" : text("custom"), nullptr, false);
    if (!custom.is_object()) return;
    for (const auto& [key, value] : custom.items()) {
      if (key == "piper_no_grad" && value.is_boolean()) c.no_grad = value.get<bool>();
      const bool is_tag =
          value.is_number_integer() && !key.empty() && key[0] != '_' && key.find(' ') == std::string::npos;
      if (is_tag && integer(value) >= INT32_MIN && integer(value) <= INT32_MAX)
        c.tags.push_back({key, value.get<int32_t>()});
    }
    std::sort(c.tags.begin(), c.tags.end(), [](const ir::TagValue& a, const ir::TagValue& b) { return a.tag < b.tag; });
  }

  // Runs the node's sub-graph where the node is. Its results become other names of the sub-graph's.
  Status inline_graph(const Json& node, size_t before, const aten::ProgramCall& c,
                      const std::vector<std::string>& results, Scope& scope, const Region& region) {
    const auto failed = [&](const std::string& why) {
      return Status::failure("P0305", "node " + describe_call(c) + ": " + why);
    };
    const Json& inputs = node.at("inputs");
    if (inputs.size() <= before || !inputs[before].at("arg").contains("as_graph"))
      return failed("a region without its calls");
    const Json& graph = inputs[before].at("arg").at("as_graph").at("graph");
    Region inner = region;
    ++inner.depth;
    inner.module = c.module;
    if (c.call.target == "higher_order.wrap_with_set_grad_enabled")
      inner.no_grad = !inputs[0].at("arg").at("as_bool").get<bool>();
    if (c.call.target == "higher_order.wrap_with_autocast" && inputs[2].at("arg").contains("as_bool") &&
        inputs[2].at("arg").at("as_bool").get<bool>())
      return failed(
          "a region of torch.autocast is not supported; cast weights and activations where they should be of another "
          "element type");
    std::vector<std::string> operands;
    for (size_t i = before + 1; i < inputs.size(); ++i) {
      const bool keyword =
          inputs[i].contains("kind") && inputs[i].at("kind").is_number_integer() && integer(inputs[i].at("kind")) == 2;
      if (const std::string name = argument_name(inputs[i].at("arg"));
          !keyword && (!name.empty() || c.call.target != "higher_order.invoke_subgraph"))
        operands.push_back(renamed(scope, name));
    }
    Scope own;
    const Json& names = graph.at("inputs");
    if (names.size() != operands.size())
      return failed("a region of " + std::to_string(names.size()) + " inputs is given " +
                    std::to_string(operands.size()));
    for (size_t i = 0; i < names.size(); ++i)
      if (const std::string name = argument_name(names[i]); !name.empty()) own[name] = operands[i];
    PIPER_RETURN_IF_ERROR(read_graph(graph, own, inner));
    std::vector<std::string> made;
    for (const Json& output : graph.at("outputs")) {
      if (output.contains("as_tensors"))
        for (const Json& x : output.at("as_tensors")) made.push_back(renamed(own, x.at("name").get<std::string>()));
      else made.push_back(renamed(own, argument_name(output)));
    }
    if (made.size() < results.size())
      return failed("a region gives " + std::to_string(made.size()) + " results, but " +
                    std::to_string(results.size()) + " are read");
    for (size_t i = 0; i < results.size(); ++i)
      if (!results[i].empty()) scope[results[i]] = made[i];
    return Status();
  }

  // ---- arguments

  Item named(const Json& x, const Scope& scope) const {
    return Item::of_ref(renamed(scope, x.at("name").get<std::string>()));
  }

  Result<Item> listed(const Json& list, const std::function<Result<Item>(const Json&)>& one) const {
    std::vector<Item> out;
    for (const Json& x : list) {
      PIPER_ASSIGN(Item value, one(x));
      out.push_back(std::move(value));
    }
    return Item::of_list(std::move(out));
  }

  Result<Item> item(const Json& argument, const Scope& scope) const {
    if (!argument.is_object() || argument.size() != 1) return Status::failure("P0301", "an argument of no known form");
    const std::string kind = argument.begin().key();
    const Json& x = argument.begin().value();
    const auto tensor = [&](const Json& y) -> Result<Item> { return named(y, scope); };
    const auto count = [](const Json& y) -> Result<Item> { return Item::of_int(integer(y)); };
    const auto truth = [](const Json& y) -> Result<Item> { return Item::of_bool(y.get<bool>()); };
    const auto word = [](const Json& y) -> Result<Item> { return Item::of_text(y.get<std::string>()); };
    const auto real = [](const Json& y) -> Result<Item> {
      PIPER_ASSIGN(const double v, real_number(y));
      return Item::of_float(v);
    };
    const auto optional = [&](const Json& y) -> Result<Item> {
      return y.contains("as_tensor") ? named(y.at("as_tensor"), scope) : Item::none();
    };
    const auto size = [&](const Json& y) -> Result<Item> {
      if (y.contains("as_name")) return Item::of_ref(renamed(scope, y.at("as_name").get<std::string>()));
      if (y.contains("as_int")) return Item::of_int(integer(y.at("as_int")));
      if (y.contains("as_bool")) return Item::of_bool(y.at("as_bool").get<bool>());
      PIPER_ASSIGN(const double v, real_number(y.at("as_float")));
      return Item::of_float(v);
    };
    if (kind == "as_none") return Item::none();
    if (kind == "as_tensor") return named(x, scope);
    if (kind == "as_tensors") return listed(x, tensor);
    if (kind == "as_int") return count(x);
    if (kind == "as_ints") return listed(x, count);
    if (kind == "as_float") return real(x);
    if (kind == "as_floats") return listed(x, real);
    if (kind == "as_bool") return truth(x);
    if (kind == "as_bools") return listed(x, truth);
    if (kind == "as_string" || kind == "as_operator") return word(x);
    if (kind == "as_strings") return listed(x, word);
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return size(x);
    if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") return listed(x, size);
    if (kind == "as_optional_tensor") return optional(x);
    if (kind == "as_optional_tensors") return listed(x, optional);
    if (kind == "as_scalar_type") return Item::of_text("torch." + scalar_type_name(integer(x)));
    if (kind == "as_memory_format" || kind == "as_layout" || kind == "as_device") return Item::of_text(kind.substr(3));
    if (kind == "as_int_lists") return listed(x, [&](const Json& y) { return listed(y, count); });
    if (kind == "as_nested_tensors") return listed(x, [&](const Json& y) { return listed(y, tensor); });
    return Status::failure("P0305", "an argument of the kind '" + kind + "' is not supported");
  }

  const std::map<std::string, std::string>& names_;
  ExportedProgram& out_;
  std::set<std::string> used_;
};

}  // namespace

Result<ExportedProgram> read_program(std::string_view json, const std::map<std::string, std::string>& names) {
  try {
    ExportedProgram out;
    PIPER_RETURN_IF_ERROR(Reader(names, out).read(Json::parse(json)));
    return out;
  } catch (const Json::exception& e) {
    return Status::failure("P0301", std::string("its program is not what torch.export.save writes: ") + e.what());
  }
}

}  // namespace piper::frontend::pt2
