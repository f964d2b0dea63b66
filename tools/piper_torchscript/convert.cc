#include "tools/piper_torchscript/convert.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

namespace piper::torchscript {
namespace {

namespace jit = torch::jit;
using Json = nlohmann::ordered_json;

// Element types in the numbering of `.pt2` archives.
constexpr std::pair<const char*, int> kDtypes[] = {{"uint8", 1}, {"int8", 2},     {"int16", 3},   {"int32", 4},
                                                   {"int64", 5}, {"float16", 6},  {"float32", 7}, {"float64", 8},
                                                   {"bool", 12}, {"bfloat16", 13}};
int number_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Byte: return 1;
    case c10::ScalarType::Char: return 2;
    case c10::ScalarType::Short: return 3;
    case c10::ScalarType::Int: return 4;
    case c10::ScalarType::Long: return 5;
    case c10::ScalarType::Half: return 6;
    case c10::ScalarType::Float: return 7;
    case c10::ScalarType::Double: return 8;
    case c10::ScalarType::Bool: return 12;
    case c10::ScalarType::BFloat16: return 13;
    default: return 0;
  }
}

// Numbers of sizes: JIT's operator -> the operator on sizes.
const std::map<std::string, std::string>& size_operators() {
  static const std::map<std::string, std::string> names = {{"aten::add", "_operator.add"},
                                                           {"aten::sub", "_operator.sub"},
                                                           {"aten::mul", "_operator.mul"},
                                                           {"aten::div", "_operator.truediv"},
                                                           {"aten::neg", "_operator.neg"},
                                                           {"aten::floordiv", "_operator.floordiv"},
                                                           {"aten::floor_divide", "_operator.floordiv"},
                                                           {"aten::remainder", "_operator.mod"}};
  return names;
}

// What underlies a value of the script.
struct Known {
  Json argument;  // {"as_tensor": {"name": "x"}}, {"as_int": 3}, ...
  bool is_list = false;
  std::vector<Known> list;
  std::optional<jit::Module> module;
  std::string path;  // of the module

  bool is_number() const {
    for (const char* key : {"as_int", "as_float", "as_bool", "as_sym_int", "as_sym_float"})
      if (argument.contains(key)) return true;
    return false;
  }
};

Known of(Json argument) {
  Known k;
  k.argument = std::move(argument);
  return k;
}
Known none() { return of({{"as_none", true}}); }
Known tensor_named(const std::string& name) { return of({{"as_tensor", {{"name", name}}}}); }

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

Json tensor_meta(int dtype, Json sizes, Json strides, bool requires_grad) {
  return {{"dtype", dtype},
          {"sizes", std::move(sizes)},
          {"requires_grad", requires_grad},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"strides", std::move(strides)},
          {"storage_offset", {{"as_int", 0}}},
          {"layout", 7}};
}

class Converter {
 public:
  Converter(const jit::Module& root, const std::vector<InputSpec>& inputs) : root_(root), inputs_(inputs) {}

  Status run() {
    for (const auto& [name, tensor] : root_.named_parameters(true)) add_stored({name, tensor}, "parameter");
    const auto graph = root_.get_method("forward").graph();
    if (graph->inputs().size() != inputs_.size() + 1)
      return Status::failure("", "forward takes " + std::to_string(graph->inputs().size() - 1) + " arguments, but " +
                                     std::to_string(inputs_.size()) + " inputs were described");
    std::vector<Known> arguments;
    for (const InputSpec& input : inputs_) {
      PIPER_RETURN_IF_ERROR(add_input(input));
      arguments.push_back(tensor_named(input.name));
    }
    Known self;
    self.module = root_;
    arguments.insert(arguments.begin(), std::move(self));
    PIPER_ASSIGN(const std::vector<Known> results, run_graph(*graph, std::move(arguments), ""));
    for (const Known& result : results) add_output(result);
    if (outputs_.empty()) return Status::failure("", "forward returns no tensor");
    return Status();
  }

  Converted counts() const { return {nodes_.size(), root_.named_parameters(true).size()}; }

  void write(const std::string& path) const {
    caffe2::serialize::PyTorchStreamWriter writer(path);
    const auto put = [&](const std::string& name, const std::string& text) {
      writer.writeRecord(name, text.data(), text.size());
    };
    for (const auto& [name, tensor] : payloads_) writer.writeRecord(name, tensor.const_data_ptr(), tensor.nbytes());
    put("data/weights/model_weights_config.json", Json{{"config", weights_}}.dump());
    put("data/constants/model_constants_config.json", Json{{"config", constants_}}.dump());
    Json graph_inputs = Json::array(), graph_outputs = Json::array(), output_specs = Json::array();
    for (const std::string& name : placeholders_) graph_inputs.push_back({{"as_tensor", {{"name", name}}}});
    for (const std::string& name : outputs_) {
      graph_outputs.push_back({{"as_tensor", {{"name", name}}}});
      output_specs.push_back({{"user_output", {{"arg", {{"as_tensor", {{"name", name}}}}}}}});
    }
    const Json graph = {{"inputs", graph_inputs},
                        {"outputs", graph_outputs},
                        {"nodes", nodes_},
                        {"tensor_values", types_},
                        {"sym_int_values", Json::object()}};
    const Json model = {
        {"graph_module",
         {{"graph", graph}, {"signature", {{"input_specs", input_specs_}, {"output_specs", output_specs}}}}},
        {"range_constraints", Json::object()},
        {"schema_version", {{"major", 8}, {"minor", 20}}}};
    put("models/model.json", model.dump());
    put("archive_format", "pt2");
    put("archive_version", "0");
    writer.writeEndOfFile();
  }

 private:
  struct Stored {
    std::string path;
    at::Tensor tensor;
  };

  // ---- tensors of the module

  // The name in the calls of a parameter, buffer or constant. Tied ones share their bytes.
  std::string add_stored(const Stored& stored, const std::string& kind) {
    const auto known = names_.find(stored.path);
    if (known != names_.end()) return known->second;
    std::string name = kind.substr(0, 1) + "_" + stored.path;
    for (char& c : name)
      if (c == '.') c = '_';
    name = fresh(name);
    names_[stored.path] = name;
    placeholders_.push_back(name);
    const bool is_constant = kind == "constant";
    const auto [own, is_new] = entries_.emplace(stored.tensor.unsafeGetTensorImpl(), "");
    if (is_new) {
      own->second = (is_constant ? "tensor_" : "weight_") + std::to_string(payloads_.size());
      payloads_.emplace_back((is_constant ? "data/constants/" : "data/weights/") + own->second,
                             stored.tensor.detach().cpu().contiguous());
    }
    Json sizes = Json::array(), strides = Json::array();
    int64_t stride = stored.tensor.numel();
    for (const int64_t n : stored.tensor.sizes()) {
      sizes.push_back({{"as_int", n}});
      stride = n == 0 ? 0 : stride / n;
      strides.push_back({{"as_int", stride}});
    }
    const Json meta =
        tensor_meta(number_of(stored.tensor.scalar_type()), sizes, strides, stored.tensor.requires_grad());
    (is_constant ? constants_ : weights_)[stored.path] = {
        {"path_name", own->second}, {"is_param", kind == "parameter"}, {"use_pickle", false}, {"tensor_meta", meta}};
    const Json arg = {{"name", name}};
    if (kind == "parameter") input_specs_.push_back({{"parameter", {{"arg", arg}, {"parameter_name", stored.path}}}});
    else if (kind == "buffer")
      input_specs_.push_back({{"buffer", {{"arg", arg}, {"buffer_name", stored.path}, {"persistent", true}}}});
    else input_specs_.push_back({{"tensor_constant", {{"arg", arg}, {"tensor_constant_name", stored.path}}}});
    types_[name] = meta;
    return name;
  }

  Status add_input(const InputSpec& input) {
    int dtype = 0;
    for (const auto& [name, number] : kDtypes)
      if (input.dtype == name) dtype = number;
    if (dtype == 0) return Status::failure("", "input '" + input.name + "': there is no element type " + input.dtype);
    Json sizes = Json::array(), strides = Json::array();
    for (const std::string& d : input.dims) {
      const bool is_number = d.find_first_not_of("0123456789") == std::string::npos;
      sizes.push_back(is_number
                          ? Json{{"as_int", std::stoll(d)}}
                          : Json{{"as_expr", {{"expr_str", "Symbol('" + d + "', positive=True, integer=True)"}}}});
      strides.push_back({{"as_int", 1}});
    }
    used_.insert(input.name);
    placeholders_.push_back(input.name);
    input_specs_.push_back({{"user_input", {{"arg", {{"as_tensor", {{"name", input.name}}}}}}}});
    types_[input.name] = tensor_meta(dtype, sizes, strides, false);
    return Status();
  }

  void add_output(const Known& result) {
    if (result.is_list)
      for (const Known& x : result.list) add_output(x);
    else if (result.argument.contains("as_tensor"))
      outputs_.push_back(result.argument.at("as_tensor").at("name").get<std::string>());
  }

  std::string fresh(const std::string& stem) {
    std::string name = stem;
    for (int i = 1; !used_.insert(name).second; ++i) name = stem + "_" + std::to_string(i);
    return name;
  }

  // ---- graphs

  Status failed(const jit::Node& node, const std::string& path, const std::string& why) const {
    std::string line;
    if (const auto at = node.sourceRange().file_line_col())
      line = ", " + std::get<0>(*at) + ":" + std::to_string(std::get<1>(*at));
    return Status::failure("",
                           std::string(node.kind().toQualString()) + " (module '" + path + "'" + line + "): " + why);
  }

  Result<std::vector<Known>> run_graph(const jit::Graph& graph, std::vector<Known> arguments, const std::string& path) {
    if (graph.inputs().size() != arguments.size())
      return Status::failure("", "a method of '" + path + "' is called with another number of arguments");
    std::unordered_map<const jit::Value*, Known> values;
    for (size_t i = 0; i < arguments.size(); ++i) values[graph.inputs()[i]] = std::move(arguments[i]);
    for (const jit::Node* node : graph.nodes()) {
      std::vector<Known> inputs;
      for (const jit::Value* v : node->inputs()) inputs.push_back(values.at(v));
      PIPER_ASSIGN(const std::vector<Known> results, step(*node, inputs, path));
      if (results.size() != node->outputs().size())
        return failed(*node, path, "another number of results than expected");
      for (size_t i = 0; i < results.size(); ++i) values[node->outputs()[i]] = results[i];
    }
    std::vector<Known> out;
    for (const jit::Value* v : graph.outputs()) out.push_back(values.at(v));
    return out;
  }

  using Results = Result<std::vector<Known>>;

  Results step(const jit::Node& node, const std::vector<Known>& inputs, const std::string& path) {
    const std::string kind = node.kind().toQualString();
    if (kind == "prim::Constant") return constant(node, path);
    if (kind == "prim::GetAttr") return attribute(node, inputs[0], path);
    if (kind == "prim::CallMethod") {
      if (!inputs[0].module) return failed(node, path, "a method of what is no module");
      return run_graph(*inputs[0].module->get_method(node.s(jit::attr::name)).graph(), inputs, inputs[0].path);
    }
    if (kind == "prim::ListConstruct" || kind == "prim::TupleConstruct") {
      Known list;
      list.is_list = true;
      list.list = inputs;
      return std::vector<Known>{std::move(list)};
    }
    if (kind == "prim::ListUnpack" || kind == "prim::TupleUnpack") {
      if (!inputs[0].is_list) return failed(node, path, "what is unpacked is no list");
      return inputs[0].list;
    }
    if (kind == "aten::__getitem__" || kind == "prim::TupleIndex") {
      const bool known = inputs.size() == 2 && inputs[0].is_list && inputs[1].argument.contains("as_int");
      const int64_t n = static_cast<int64_t>(inputs[0].list.size()),
                    i = known ? inputs[1].argument.at("as_int").get<int64_t>() : n;
      if (i >= n || i < -n) return failed(node, path, "an index that is not known");
      return std::vector<Known>{inputs[0].list[static_cast<size_t>(i < 0 ? i + n : i)]};
    }
    if (kind == "aten::Int" && inputs[0].argument.contains("as_sym_float"))
      return size_call(node, "torch.sym_int", inputs, path, "as_sym_int");
    for (const char* same : {"prim::NumToTensor", "aten::Int", "aten::Float", "aten::ScalarImplicit",
                             "aten::IntImplicit", "aten::FloatImplicit"})
      if (kind == same) {
        if (!inputs[0].is_number())
          return failed(node, path, "a number that is read from a tensor while the model runs");
        return std::vector<Known>{inputs[0]};
      }
    if (kind == "aten::size" && inputs.size() == 2)
      return size_call(node, "torch.ops.aten.sym_size.int", inputs, path, "as_sym_int");
    if (const auto found = size_operators().find(kind); found != size_operators().end()) {
      size_t numbers = 0;
      for (size_t i = 0; i < inputs.size() && i < 2; ++i) numbers += inputs[i].is_number() ? 1 : 0;
      if (numbers == std::min<size_t>(inputs.size(), 2)) {
        if (inputs.size() == 3 && inputs[2].argument != Json{{"as_int", 1}} && !inputs[2].argument.contains("as_none"))
          return failed(node, path, "sizes with a factor or a rounding mode");
        const bool real = kind == "aten::div" || inputs[0].argument.contains("as_float") ||
                          inputs[0].argument.contains("as_sym_float") ||
                          (inputs.size() > 1 &&
                           (inputs[1].argument.contains("as_float") || inputs[1].argument.contains("as_sym_float")));
        return size_call(
            node, found->second,
            {inputs.begin(), inputs.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(inputs.size()))},
            path, real ? "as_sym_float" : "as_sym_int");
      }
    }
    if (kind.rfind("aten::", 0) == 0) return call(node, inputs, path);
    return failed(node, path, "this form of TorchScript is not supported; trace the model with torch.jit.trace");
  }

  Results constant(const jit::Node& node, const std::string& path) {
    const std::optional<c10::IValue> value = jit::toIValue(node.output());
    if (!value) return failed(node, path, "a constant of an unknown form");
    PIPER_ASSIGN(Known known, of_ivalue(*value, node, path));
    return std::vector<Known>{std::move(known)};
  }

  Results attribute(const jit::Node& node, const Known& self, const std::string& path) {
    if (!self.module) return failed(node, path, "an attribute of what is no module");
    const std::string name = node.s(jit::attr::name), full = joined(self.path, name);
    const c10::IValue value = self.module->attr(name);
    Known known;
    if (value.isModule()) {
      known.module = jit::Module(value.toModule());
      known.path = full;
    } else if (value.isTensor()) {
      const auto type = self.module->type();
      const size_t slot = type->getAttributeSlot(name);
      known = tensor_named(add_stored({full, value.toTensor()}, type->is_parameter(slot) ? "parameter"
                                                                : type->is_buffer(slot)  ? "buffer"
                                                                                         : "constant"));
    } else {
      PIPER_ASSIGN(known, of_ivalue(value, node, path));
    }
    return std::vector<Known>{std::move(known)};
  }

  Result<Known> of_ivalue(const c10::IValue& value, const jit::Node& node, const std::string& path) {
    if (value.isNone() || value.isDevice()) return none();
    if (value.isBool()) return of({{"as_bool", value.toBool()}});
    if (value.isInt()) return of({{"as_int", value.toInt()}});
    if (value.isDouble()) return of({{"as_float", real(value.toDouble())}});
    if (value.isString()) return of({{"as_string", value.toStringRef()}});
    if (value.isTensor()) {
      const at::Tensor& t = value.toTensor();
      // A number that the tracer has put into a tensor without axes.
      if (t.dim() == 0 && t.scalar_type() == c10::ScalarType::Long) return of({{"as_int", t.item().toLong()}});
      if (t.dim() == 0 && (t.scalar_type() == c10::ScalarType::Double || t.scalar_type() == c10::ScalarType::Float))
        return of({{"as_float", real(t.item().toDouble())}});
      return tensor_named(add_stored({"constant_" + std::to_string(payloads_.size()), t}, "constant"));
    }
    if (value.isList() || value.isTuple()) {
      Known out;
      out.is_list = true;
      const auto add = [&](const c10::IValue& x) -> Status {
        PIPER_ASSIGN(Known k, of_ivalue(x, node, path));
        out.list.push_back(std::move(k));
        return Status();
      };
      if (value.isTuple()) {
        for (const c10::IValue& x : value.toTupleRef().elements()) PIPER_RETURN_IF_ERROR(add(x));
      } else {
        for (const c10::IValue& x : value.toListRef()) PIPER_RETURN_IF_ERROR(add(x));
      }
      return out;
    }
    return failed(node, path, "a constant of the type " + value.tagKind());
  }

  static Json real(double v) {
    if (v != v) return "NaN";
    if (v - v != 0) return v > 0 ? "Infinity" : "-Infinity";
    return v;
  }

  // ---- calls

  Json metadata(const jit::Node& node, const std::string& path) const {
    Json out = {{"nn_module_stack", "m," + path + ",module"}};
    if (const auto at = node.sourceRange().file_line_col())
      out["stack_trace"] =
          "File \"" + std::get<0>(*at) + "\", line " + std::to_string(std::get<1>(*at)) + ", in forward";
    return out;
  }

  void add_node(const std::string& target, Json inputs, Json outputs, const jit::Node& node, const std::string& path,
                const std::string& name) {
    nodes_.push_back({{"target", target},
                      {"inputs", std::move(inputs)},
                      {"outputs", std::move(outputs)},
                      {"metadata", metadata(node, path)},
                      {"name", name}});
  }

  Results size_call(const jit::Node& node, const std::string& target, const std::vector<Known>& inputs,
                    const std::string& path, const char* kind) {
    Json arguments = Json::array();
    for (const Known& k : inputs) arguments.push_back({{"name", "a"}, {"arg", k.argument}, {"kind", 1}});
    const std::string name = fresh("size");
    const Json result = {{kind, {{"as_name", name}}}};
    add_node(target, std::move(arguments), Json::array({result}), node, path, name);
    return std::vector<Known>{of(result)};
  }

  // A list as one argument: its kind follows from its elements.
  Result<Json> list_argument(const Known& list, const c10::TypePtr& type) const {
    const bool tensors = type->str().find("Tensor") != std::string::npos;
    Json elements = Json::array();
    for (const Known& k : list.list) {
      if (k.is_list || k.module) return Status::failure("", "a list inside a list");
      if (tensors) {
        elements.push_back(k.argument.contains("as_tensor") ? Json{{"as_tensor", k.argument.at("as_tensor")}}
                                                            : Json{{"as_none", true}});
      } else if (k.argument.contains("as_sym_int")) {
        elements.push_back(k.argument.at("as_sym_int"));
      } else {
        elements.push_back(k.argument);
      }
    }
    if (tensors) return Json{{"as_optional_tensors", elements}};
    return Json{{"as_sym_ints", elements}};
  }

  Result<Json> argument_of(const c10::Argument& parameter, const Known& k) const {
    for (const char* placement : {"device", "layout", "memory_format", "pin_memory", "generator"})
      if (parameter.name() == placement) return none().argument;
    if (k.module) return Status::failure("", "a module as an argument");
    if (k.is_list) return list_argument(k, parameter.type());
    const std::string type = parameter.real_type()->str();
    if (type.find("ScalarType") != std::string::npos && k.argument.contains("as_int"))
      return Json{{"as_scalar_type", number_of(static_cast<c10::ScalarType>(k.argument.at("as_int").get<int64_t>()))}};
    return k.argument;
  }

  Results call(const jit::Node& node, const std::vector<Known>& inputs, const std::string& path) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    if (schema == nullptr) return failed(node, path, "an operator without a schema");
    Json arguments = Json::array();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const c10::Argument& parameter = schema->arguments().at(i);
      Result<Json> argument = argument_of(parameter, inputs[i]);
      if (!argument.ok()) return failed(node, path, argument.error().message);
      if (parameter.kwarg_only() && argument->contains("as_none")) continue;
      arguments.push_back(
          {{"name", parameter.name()}, {"arg", std::move(argument).value()}, {"kind", parameter.kwarg_only() ? 2 : 1}});
    }
    const std::string stem = node.kind().toUnqualString();
    const std::string target =
        "torch.ops.aten." + stem + "." + (schema->overload_name().empty() ? "default" : schema->overload_name());
    std::vector<Known> results;
    Json outputs = Json::array();
    for (const jit::Value* v : node.outputs()) {
      if (v->type()->kind() == c10::TypeKind::ListType) {
        Known list;
        list.is_list = true;
        Json names = Json::array();
        const std::optional<size_t> n = elements_read(*v);
        if (!n) return failed(node, path, "a list of tensors that is not taken apart at once");
        for (size_t i = 0; i < *n; ++i) {
          const std::string name = fresh(stem);
          names.push_back({{"name", name}});
          list.list.push_back(tensor_named(name));
        }
        outputs.push_back({{"as_tensors", names}});
        results.push_back(std::move(list));
      } else {
        const std::string name = fresh(stem);
        outputs.push_back({{"as_tensor", {{"name", name}}}});
        results.push_back(tensor_named(name));
      }
    }
    add_node(target, std::move(arguments), std::move(outputs), node, path, fresh(stem + "_call"));
    return results;
  }

  // How many elements of a list of tensors the graph looks at; nullopt where that cannot be seen.
  static std::optional<size_t> elements_read(const jit::Value& list) {
    size_t n = 0;
    for (const jit::Use& use : list.uses()) {
      if (use.user->kind() == c10::prim::ListUnpack) {
        n = std::max(n, use.user->outputs().size());
      } else if (use.user->kind() == c10::aten::__getitem__) {
        const auto i = jit::toIValue(use.user->input(1));
        if (!i || !i->isInt() || i->toInt() < 0) return std::nullopt;
        n = std::max(n, static_cast<size_t>(i->toInt()) + 1);
      } else {
        return std::nullopt;
      }
    }
    return n;
  }

  const jit::Module& root_;
  const std::vector<InputSpec>& inputs_;
  std::map<std::string, std::string> names_;                         // in the state dict -> in the calls
  std::unordered_map<const c10::TensorImpl*, std::string> entries_;  // -> "weight_3"
  std::vector<std::pair<std::string, at::Tensor>> payloads_;
  std::vector<std::string> placeholders_, outputs_;
  std::set<std::string> used_;
  Json nodes_ = Json::array(), input_specs_ = Json::array(), types_ = Json::object(), weights_ = Json::object(),
       constants_ = Json::object();
};

}  // namespace

Result<Converted> convert(const std::string& from, const std::string& to, const std::vector<InputSpec>& inputs) {
  try {
    const jit::Module root = jit::load(from, c10::kCPU);
    Converter converter(root, inputs);
    PIPER_RETURN_IF_ERROR(converter.run());
    converter.write(to);
    return converter.counts();
  } catch (const std::exception& e) {
    const std::string text = e.what();
    return Status::failure("", from + ": " + text.substr(0, text.find('\n')));
  }
}

}  // namespace piper::torchscript
