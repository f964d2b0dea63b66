#include "compiler/frontend/onnx/import_nodes.h"

#include <algorithm>

#include "compiler/frontend/onnx/node_origin.h"
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

constexpr int64_t kOldestOpset = 13, kNewestOpset = 28;

struct Entry {
  std::string_view op_type;
  ImportFunction function;
};
constexpr Entry kTable[] = {
#define PIPER_ONNX_OP(op_type, function) {op_type, &import_##function},
#include "compiler/frontend/onnx/ops_table.def"
#undef PIPER_ONNX_OP
};

// "" where ONNX has no such operator.
constexpr struct {
  std::string_view op_type;
  OpKind kind;
} kElementwise[] = {
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative) {onnx, OpKind::kernel},
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)
#include "schemas/plan/elementwise.def"
};

// Attributes that nothing asks for, or not always, as they change no value that a step computes.
constexpr struct {
  std::string_view op_type, attribute;
} kWithoutEffect[] = {
    {"Attention", "kv_num_heads"},  // of operands of three axes
    {"Attention", "q_num_heads"},
    {"Attention", "softmax_precision"},      // f32 at least, here
    {"Attention", "qk_matmul_output_mode"},  // of a result that nothing reads
    {"Cast", "round_mode"},                  // to types of 8 bits, which are refused
    {"Cast", "saturate"},
    {"CastLike", "round_mode"},
    {"CastLike", "saturate"},
    {"Dropout", "seed"},                   // the strategy's
    {"GroupNormalization", "stash_type"},  // f32 at least, here
    {"LayerNormalization", "stash_type"},
    {"LinearAttention", "chunk_size"},  // how, not what
    {"MaxPool", "storage_order"},       // of a result that nothing reads
    {"RMSNormalization", "stash_type"},
    {"Range", "stash_type"},
    {"TopK", "sorted"},  // they always are
};
bool has_effect(const OnnxNode& node, const OnnxAttribute& attribute) {
  return std::none_of(std::begin(kWithoutEffect), std::end(kWithoutEffect), [&](const auto& known) {
    return known.op_type == node.op_type && known.attribute == attribute.name;
  });
}

std::string named(const OnnxNode& node, const std::string& domain) {
  return "'" + (domain.empty() ? node.op_type : domain + "." + node.op_type).substr(0, 160) + "'";
}

// Why an operator outside the table can never be in it, as a code; "" where it only is not yet.
std::string_view reason_against(std::string_view op_type) {
  for (const std::string_view random :
       {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})
    if (op_type == random) return "P0321";
  for (const std::string_view dynamic : {"Compress", "NonMaxSuppression", "NonZero", "Unique"})
    if (op_type == dynamic) return "P0323";
  return "";
}

// One node; its results are added to the state's values.
Status import_node(ImportState& state, const OnnxNode& node, diag::Diagnostics& diags) {
  const ImportFunction function = node.domain.empty() ? find_operator(node.op_type) : nullptr;
  if (function == nullptr) {
    const std::string_view reason = node.domain.empty() ? reason_against(node.op_type) : "";
    if (reason == "P0321")
      return diags.error("P0321") << describe_node(node) << " draws random numbers that no seed of the step fixes";
    if (reason == "P0323")
      return diags.error("P0323") << "the shape that " << describe_node(node) << " makes depends on the data";
    diag::InFlight error = diags.error("P0305");
    error << "the ONNX operator " << named(node, node.domain) << " is not supported: " << describe_node(node);
    error.help(
        "`python tools/piper_export.py --decompose FILE -o NEW` puts functions in the place of their calls; supported "
        "operators are " +
        supported_operators());
    return error;
  }
  const std::string module = node_scope(node);
  ir::Graph& graph = *state.calls.graph;
  const ir::ScopeId scope = graph.intern_scope(module);
  std::string name = node.name;
  if (name.empty() && !node.outputs.empty()) name = node.outputs[0];
  const ir::ProvId prov = graph.provenance().model({name, module, node_line(node)});
  NodeImport n(state, node, module, scope, prov);
  try {
    function(n);
  } catch (const Misfit& misfit) {
    n.refuse(misfit.what());
  }
  // For a later version, or of somebody's own: another computation.
  if (n.ok())
    for (const OnnxAttribute& attribute : n.node().attributes)
      if (!n.has_read(attribute) && has_effect(node, attribute))
        n.refuse("its attribute '" + attribute.name.substr(0, 200) + "' is not supported");
  if (const Status status = n.status(); !status.ok())
    return diags.error(status.error().code == "P0401" ? "P0306" : status.error().code)
           << "cannot import " << describe_node(node) << ": " << status.error().message;
  for (const auto& [output, value] : n.results())
    if (!state.values.emplace(output, value).second)
      return diags.error("P0306") << "cannot import " << describe_node(node) << ": the name '" << output.substr(0, 200)
                                  << "' is made twice";
  return Status();
}

void count_readers(const OnnxFile& file, ImportState& state) {
  for (const OnnxNode& node : file.nodes) {
    for (const std::string& name : node.inputs) ++state.readers[name];
    for (size_t i = 3; node.op_type == "BatchNormalization" && i < node.inputs.size(); ++i)
      ++state.keepers[node.inputs[i]];
  }
  for (const OnnxValueInfo& output : file.outputs) {
    ++state.readers[output.name];
    ++state.keepers[output.name];
  }
}

}  // namespace

ImportFunction find_operator(std::string_view op_type) {
  for (const Entry& e : kTable)
    if (e.op_type == op_type) return e.function;
  return find_elementwise(op_type) ? &import_elementwise : nullptr;
}

std::optional<OpKind> find_elementwise(std::string_view op_type) {
  for (const auto& row : kElementwise)
    if (!op_type.empty() && row.op_type == op_type) return row.kind;
  return std::nullopt;
}

void import_elementwise(NodeImport& n) { n.unary(*find_elementwise(n.node().op_type)); }

std::string supported_operators() {
  std::vector<std::string_view> names;
  for (const Entry& e : kTable) names.push_back(e.op_type);
  for (const auto& row : kElementwise)
    if (!row.op_type.empty()) names.push_back(row.op_type);
  std::sort(names.begin(), names.end());
  std::string out;
  for (const std::string_view name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

Status import_nodes(BoundModel& model, diag::Diagnostics& diags, const FoldLimits& limits) {
  const OnnxFile& file = *model.file;
  const int64_t opset = file.opset_version();
  if (opset < kOldestOpset || opset > kNewestOpset)
    return diags.error("P0308") << "the model uses ONNX opset " << opset << "; piper imports opsets " << kOldestOpset
                                << " to " << kNewestOpset;
  ImportState state;
  state.file = &file;
  state.calls.graph = &model.graph;
  state.calls.per_piece = model.per_piece;
  state.opset = opset;
  state.limits = limits;
  state.embeddings = &model.embeddings;
  state.step_extent = model.step_extent;
  for (const OnnxValueInfo& info : file.inputs) state.infos.emplace(info.name, &info);
  for (const OnnxValueInfo& info : file.value_info) state.infos.emplace(info.name, &info);
  for (const auto& [name, value] : model.values) state.values[name] = {value, false, {}};
  count_readers(file, state);
  for (const OnnxNode& node : file.nodes) PIPER_RETURN_IF_ERROR(import_node(state, node, diags));
  for (const auto& [name, value] : state.values)
    if (!value.is_sequence) model.values[name] = value.value;
  for (const OnnxValueInfo& output : file.outputs) {
    const auto found = state.values.find(output.name);
    if (found == state.values.end() || found->second.is_sequence)
      return diags.error("P0306") << "the graph's output '" << output.name.substr(0, 200) << "' is made by no node";
    model.graph.outputs.push_back({output.name, found->second.value});
  }
  return Status();
}

}  // namespace piper::frontend::onnx
