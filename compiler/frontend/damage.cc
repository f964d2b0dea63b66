#include "compiler/frontend/damage.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/frontend/aten/onnx_calls.h"
#include "compiler/frontend/aten/fx_text.h"
#include "compiler/frontend/aten/running_statistics.h"
#include "compiler/frontend/onnx/node_origin.h"

namespace piper::frontend {
namespace {

constexpr std::string_view kFoldedKey = "pkg.onnxscript.optimizer.folded_from";
constexpr size_t kMostNames = 10;

std::set<std::string> initializer_names(const onnx::OnnxFile& file) {
  std::set<std::string> out;
  for (const onnx::OnnxTensor& t : file.initializers) out.insert(t.name);
  return out;
}

bool was_optimized(const onnx::OnnxFile& file) {
  if (!aten::every_node_has_text(file)) return true;
  for (const onnx::OnnxTensor& t : file.initializers)
    if (t.metadata.find(kFoldedKey) != nullptr) return true;
  for (const onnx::OnnxValueInfo& v : file.value_info)
    if (v.metadata.find(kFoldedKey) != nullptr) return true;
  return false;
}

std::string last_word(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}
std::string module_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

// Parameters of the signature that are no initializer.
std::vector<const SignatureEntry*> absent_parameters(const onnx::OnnxFile& file, const ExportMetadata& metadata) {
  const std::set<std::string> present = initializer_names(file);
  std::vector<const SignatureEntry*> out;
  for (const SignatureEntry& e : metadata.inputs)
    if (e.kind == "PARAMETER" && present.count(e.target) == 0) out.push_back(&e);
  return out;
}

// A numeric argument of a call by position or name; `otherwise` where it is not given.
double number_of(const aten::FxCall& call, size_t i, const char* name, double otherwise) {
  for (const auto& [key, x] : call.kwargs)
    if (key == name) return x.number();
  return i < call.args.size() ? call.args[i].number() : otherwise;
}

// What the call's text says that its ONNX operators do not carry; "" where nothing.
std::string lost_by_operators(const aten::FxCall& call) {
  const auto number = [&](size_t i, const char* name) { return number_of(call, i, name, 0); };
  const std::string& t = call.target;
  if (t == "aten.cross_entropy_loss.default" && number(5, "label_smoothing") > 0) return "label smoothing";
  if (t == "aten.scaled_dot_product_attention.default" && number(4, "dropout_p") > 0) return "dropout inside attention";
  if (t.find("native_batch_norm_legit") != std::string::npos && t.find("no_training") == std::string::npos &&
      number(5, "training") != 0)
    return "batch norm in training mode";
  return "";
}

}  // namespace

const std::vector<TextCalls::TextCall>& TextCalls::all() {
  if (calls_) return *calls_;
  calls_.emplace();
  std::set<std::string_view> seen;
  for (const onnx::OnnxNode& node : file_.nodes) {
    const std::string_view* text = node.metadata.find(aten::kFxNodeKey);
    if (text == nullptr || !seen.insert(*text).second) continue;
    Result<aten::FxCall> call = aten::parse_fx_text(*text);
    if (!call.ok()) continue;
    TextCall t{&node, std::move(call).value(), {}};
    for (const aten::Item& x : t.call.args) aten::collect_refs(x, t.refs);
    for (const auto& [key, x] : t.call.kwargs) aten::collect_refs(x, t.refs);
    calls_->push_back(std::move(t));
  }
  return *calls_;
}

std::map<std::string, std::vector<std::string>> tied_aliases(TextCalls& texts, const ExportMetadata& metadata) {
  const onnx::OnnxFile& file = texts.file();
  std::map<std::string, std::vector<std::string>> out;
  const std::set<std::string> present = initializer_names(file);
  std::set<std::string> explained;
  for (const std::vector<std::string>& group : metadata.tied) {
    const auto own =
        std::find_if(group.begin(), group.end(), [&](const std::string& n) { return present.count(n) != 0; });
    if (own == group.end()) continue;
    for (const std::string& name : group)
      if (name != *own && explained.insert(name).second) out[*own].push_back(name);
  }
  std::set<std::string> absent;
  for (const SignatureEntry* e : absent_parameters(file, metadata))
    if (explained.count(e->target) == 0) absent.insert(e->target);
  if (absent.empty()) return out;
  for (const TextCalls::TextCall& t : texts.all()) {
    const std::string scope = onnx::node_scope(*t.node);
    for (const std::string& ref : t.refs) {
      const auto found = metadata.placeholders.find(ref);
      if (found == metadata.placeholders.end() || module_of(found->second) == scope) continue;
      const std::string alias = (scope.empty() ? "" : scope + ".") + last_word(found->second);
      if (absent.erase(alias) != 0) out[found->second].push_back(alias);
    }
  }
  return out;
}

Status check_damage(TextCalls& texts, const ExportMetadata& metadata, diag::Diagnostics& diags) {
  const onnx::OnnxFile& file = texts.file();
  if (!metadata.has_signature) return Status();
  std::vector<const SignatureEntry*> changed;  // buffers that a step changes
  for (const SignatureEntry& e : metadata.outputs)
    if (e.kind == "BUFFER_MUTATION" && !aten::counts_batches(e.target)) changed.push_back(&e);
  const std::vector<const SignatureEntry*> absent = absent_parameters(file, metadata);
  if (absent.empty() && changed.empty()) return Status();
  std::set<std::string> proved, used;
  for (const auto& [own, aliases] : tied_aliases(texts, metadata)) proved.insert(aliases.begin(), aliases.end());
  const auto is_proved = [&](const SignatureEntry* e) { return proved.count(e->target) != 0; };
  if (changed.empty() && std::all_of(absent.begin(), absent.end(), is_proved)) return Status();
  for (const TextCalls::TextCall& t : texts.all()) used.insert(t.refs.begin(), t.refs.end());
  const bool optimized = was_optimized(file);

  // In an unoptimized file a parameter that no text names is an alias of a tied one, or unused.
  std::vector<std::string> lost;
  std::string unnamed;
  for (const SignatureEntry* e : absent) {
    if (is_proved(e)) continue;
    if (optimized || used.count(e->name) != 0) lost.push_back(e->target);
    else unnamed += (unnamed.empty() ? "" : ", ") + e->target;
  }
  if (!unnamed.empty() && lost.empty())
    diags.remark(
        "no call of the model reads these parameters of its signature: other names of tied weights, or unused: " +
        unnamed);
  if (!lost.empty()) {
    std::string names;
    for (size_t i = 0; i < std::min(lost.size(), kMostNames); ++i) names += (i > 0 ? ", " : "") + lost[i];
    if (lost.size() > kMostNames) names += " and " + std::to_string(lost.size() - kMostNames) + " more";
    return diags.error("P0310").help(
               "export again with torch.onnx.export(..., optimize=False), or with tools/piper_export.py")
           << "this export has lost " << lost.size() << " parameter" << (lost.size() > 1 ? "s" : "")
           << " of the model: " << names
           << ". The exporter's optimizer merges, transposes or folds weights: the loss would be the same, but the "
              "training "
              "would not";
  }
  for (const SignatureEntry* e : changed) {
    const auto placeholder = std::find_if(metadata.inputs.begin(), metadata.inputs.end(),
                                          [&](const SignatureEntry& in) { return in.target == e->target; });
    const bool read = placeholder != metadata.inputs.end() && used.count(placeholder->name) != 0;
    if (optimized && !read && initializer_names(file).count(e->target) == 0)
      return diags.error("P0311").help(
                 "export again with torch.onnx.export(..., optimize=False), or with tools/piper_export.py")
             << "the step of this model changes '" << e->target
             << "', but the export has lost it: a normalisation was fused away";
  }
  return Status();
}

std::map<std::string, ir::EmbeddingAttrs> embedding_texts(TextCalls& texts) {
  std::map<std::string, ir::EmbeddingAttrs> out;
  for (const TextCalls::TextCall& t : texts.all()) {
    if (t.call.target != "aten.embedding.default") continue;
    ir::EmbeddingAttrs attrs;
    const double padding = number_of(t.call, 2, "padding_idx", -1);
    attrs.padding_idx = std::abs(padding) < 0x1p53 ? static_cast<int64_t>(padding) : -1;
    attrs.scale_grad_by_freq = number_of(t.call, 3, "scale_grad_by_freq", 0) != 0;
    out.emplace(t.node->name, attrs);
  }
  return out;
}

Status check_operator_route(TextCalls& texts, diag::Diagnostics& diags) {
  for (const TextCalls::TextCall& t : texts.all()) {
    const std::string what = lost_by_operators(t.call);
    if (what.empty()) continue;
    return diags.error("P0312").help(
               "import the file by its ATen calls (route auto or fx); that wants an export with optimize=False, where "
               "every node carries its call")
           << "node '" << t.node->name << "' (module " << onnx::node_scope(*t.node) << ", " << onnx::node_line(*t.node)
           << "): ONNX operators do not carry " << what << ", which the model has";
  }
  return Status();
}

}  // namespace piper::frontend
