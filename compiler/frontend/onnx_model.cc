#include "compiler/frontend/onnx_model.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "compiler/frontend/aten/import_calls.h"
#include "compiler/frontend/aten/recognise_rms_norm.h"
#include "compiler/frontend/damage.h"
#include "compiler/frontend/file_digest.h"
#include "compiler/frontend/fold.h"
#include "compiler/frontend/onnx/import_nodes.h"

namespace piper::frontend {
namespace {

// Constants up to this size are read into memory, so that they can be folded.
constexpr int64_t kMostBytesInMemory = int64_t{1} << 26;

bool is_name(const std::string& symbol) {
  return !symbol.empty() && std::all_of(symbol.begin(), symbol.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
         std::isdigit(static_cast<unsigned char>(symbol[0])) == 0;
}

// `*` matches any characters; a leading "*." also matches nothing.
bool glob_matches(std::string_view glob, std::string_view name) {
  if (glob.rfind("*.", 0) == 0 && glob_matches(glob.substr(2), name)) return true;
  size_t g = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      mark = n;
    } else if (g < glob.size() && glob[g] == name[n]) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

// A glob means a parameter, or every parameter of a module.
bool freezes(const std::string& glob, const std::string& name) {
  return glob_matches(glob, name) || glob_matches(glob + ".*", name);
}

std::string last_word(const std::string& name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

Result<std::unique_ptr<ModelFile>> open_model(const std::string& path, const std::string& route, diag::Diagnostics& diags) {
  return OnnxModel::open(path, route, diags);
}

Result<std::unique_ptr<ModelFile>> OnnxModel::open(const std::string& path, const std::string& route, diag::Diagnostics& diags) {
  if (route != "auto" && route != "fx" && route != "onnx")
    return diags.error("P0300") << "unknown import route '" << route << "': auto, fx or onnx";
  Result<onnx::OnnxFile> file = onnx::read_onnx(path);
  if (!file.ok()) return diags.error(file.error().code) << file.error().message;
  std::unique_ptr<OnnxModel> model(new OnnxModel);
  model->path_ = path;
  model->base_name_ = std::filesystem::path(path).filename().string();
  model->file_ = std::move(file).value();
  model->metadata_ = read_export_metadata(model->file_);
  PIPER_RETURN_IF_ERROR(model->read_inputs(diags));
  PIPER_RETURN_IF_ERROR(check_damage(model->file_, model->metadata_, diags));
  model->aliases_ = tied_aliases(model->file_, model->metadata_);

  const bool has_texts = aten::every_node_has_text(model->file_);
  if (route == "fx" && !has_texts)
    return diags.error("P0304").help("export with torch.onnx.export(..., optimize=False), or take `route: onnx`")
           << model->base_name_ << ": not every node carries its ATen call, so the file cannot be imported by route fx";
  if (has_texts && route != "onnx") {
    Result<aten::CallGroups> calls = aten::group_calls(model->file_);
    if (!calls.ok()) return diags.error(calls.error().code) << model->base_name_ << ": " << calls.error().message;
    model->calls_ = std::move(calls).value();
  } else {
    PIPER_RETURN_IF_ERROR(check_operator_route(model->file_, diags));
  }
  return std::unique_ptr<ModelFile>(std::move(model));
}

Status OnnxModel::read_inputs(diag::Diagnostics& diags) {
  bool symbolic = false;
  for (const onnx::OnnxValueInfo& v : file_.inputs) {
    const std::optional<DType> dtype = onnx::dtype_of(v.elem_type);
    if (!v.is_tensor || !v.has_shape || !dtype)
      return diags.error("P0307") << "input '" << v.name << "' of " << base_name_ << " has the type "
                                  << onnx::elem_type_name(v.elem_type) << ": inputs must be tensors of float32, float64, bfloat16, int64, int32 or bool with a shape";
    ModelInput input;
    input.name = v.name;
    input.dtype = *dtype;
    for (const onnx::OnnxDim& d : v.dims) {
      input.shape.push_back(d.value);
      input.symbols.push_back(d.value < 0 ? d.symbol : "");
    }
    symbolic = symbolic || (!input.shape.empty() && input.shape[0] < 0);
    inputs_.push_back(std::move(input));
  }
  for (const onnx::OnnxValueInfo& v : file_.outputs) outputs_.push_back(v.name);
  if (!symbolic)
    for (const ModelInput& input : inputs_)
      if (!input.shape.empty() && fixed_batch_ < 0) fixed_batch_ = input.shape[0];
  for (const onnx::OnnxValueInfo& v : file_.value_info)
    if (const std::string* kind = v.metadata.find("pkg.torch.export.graph_signature.InputSpec.kind")) kinds_[v.name] = *kind;
  for (const SignatureEntry& e : metadata_.inputs)
    if (!e.target.empty()) kinds_.emplace(e.target, e.kind);
  return Status();
}

std::string OnnxModel::sha256() const {
  std::set<std::string> external;
  for (const onnx::OnnxTensor& t : file_.initializers)
    if (t.place == onnx::OnnxTensor::Place::kExternal) external.insert(t.external_path);
  return file_digest(path_, {external.begin(), external.end()});
}

std::map<std::string, ir::TagSet> OnnxModel::node_tags() const {
  std::map<std::string, ir::TagSet> out;
  for (const auto& [node, text] : metadata_.tags) {
    ir::TagSet tags;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos || equals == 0) continue;
      tags.push_back({word.substr(0, equals), static_cast<int32_t>(std::strtol(word.c_str() + equals + 1, nullptr, 10))});
    }
    std::sort(tags.begin(), tags.end(), [](const ir::TagValue& a, const ir::TagValue& b) { return a.tag < b.tag; });
    out[node] = std::move(tags);
  }
  return out;
}

Status OnnxModel::bind_dims(const BindRequest& request, BoundModel& model, diag::Diagnostics& diags) const {
  if (request.local_batch < 1) return diags.error("P0303") << "a piece must have at least one sample";
  if (fixed_batch_ >= 0 && request.local_batch != fixed_batch_)
    return diags.error("P0303").help("export with a symbolic batch axis (dynamic_shapes={\"input_ids\": {0: Dim(\"B\")}, ...}), or choose microbatches of " + std::to_string(fixed_batch_) + " samples")
           << base_name_ << " was exported for a batch of exactly " << fixed_batch_ << "; the strategy asks for pieces of "
           << request.local_batch << " samples";
  std::set<std::string> symbols, batch;
  for (const ModelInput& input : inputs_)
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d] >= 0 || !is_name(input.symbols[d])) continue;
      symbols.insert(input.symbols[d]);
      if (d == 0) batch.insert(input.symbols[d]);
    }
  for (const std::string& s : batch) model.dims.bind(s, request.local_batch);
  for (const auto& [name, extent] : request.dims) {
    if (symbols.count(name) == 0 || batch.count(name) != 0) {
      std::vector<std::string> open;
      for (const std::string& s : symbols)
        if (batch.count(s) == 0) open.push_back(s);
      diag::InFlight error = diags.error("P0302");
      error << "model.dims names '" << name << "', which is no open extent of " << base_name_;
      if (batch.count(name) != 0) error << ": it is the batch, which the strategy sets";
      const std::string near = diag::nearest(name, open);
      std::string list;
      for (const std::string& s : open) list += (list.empty() ? "" : ", ") + s;
      error.help(!near.empty() ? "did you mean '" + near + "'?" : list.empty() ? "the model has no open extents" : "open extents: " + list);
      return error;
    }
    if (extent < 1) return diags.error("P0302") << "model.dims: '" << name << "' must be positive";
    model.dims.bind(name, extent);
  }
  return Status();
}

bool OnnxModel::is_running_statistic(const std::string& name) const {
  for (const SignatureEntry& e : metadata_.outputs)
    if (e.kind == "BUFFER_MUTATION" && e.target == name) return true;
  return false;
}

// Without the exporter's word for it (other exporters), a floating-point initializer with axes is a
// parameter unless it is called a running statistic.
bool OnnxModel::is_parameter(const onnx::OnnxTensor& tensor) const {
  const auto kind = kinds_.find(tensor.name);
  if (kind != kinds_.end()) return kind->second == "PARAMETER";
  if (metadata_.has_signature) return false;
  const std::optional<DType> dtype = onnx::dtype_of(tensor.elem_type);
  const std::string word = last_word(tensor.name);
  return dtype && is_floating(*dtype) && !tensor.dims.empty() && word != "running_mean" && word != "running_var";
}

Status OnnxModel::add_values(const BindRequest& request, BoundModel& model, diag::Diagnostics& diags) const {
  for (const ModelInput& input : inputs_) {
    ir::TensorType type{input.dtype, input.shape};
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d] >= 0) continue;
      Result<int64_t> extent = model.dims.evaluate(input.symbols[d].empty() ? "?" : input.symbols[d]);
      if (!extent.ok())
        return diags.error(extent.error().code).help("strategy: model: {dims: {" + (input.symbols[d].empty() ? std::string("S") : input.symbols[d]) + ": 128}}")
               << "input '" << input.name << "' of " << base_name_ << ", axis " << d << ": " << extent.error().message;
      type.shape[d] = extent.value();
    }
    const bool batched = !type.shape.empty() && (fixed_batch_ >= 0 ? type.shape[0] == fixed_batch_ : input.shape[0] < 0);
    model.values[input.name] = model.graph.add_input(input.name, std::move(type), batched);
  }
  std::set<std::string> unmatched(request.freeze.begin(), request.freeze.end());
  std::vector<std::string> all_names;
  for (const onnx::OnnxTensor& t : file_.initializers) {
    const auto failed = [&](const Error& error) -> Status {
      return diags.error(error.code) << base_name_ << ": initializer '" << t.name << "': " << error.message;
    };
    const bool parameter = is_parameter(t), statistic = is_running_statistic(t.name);
    if (!parameter && !statistic && t.bytes <= kMostBytesInMemory) {
      Result<ConstantTensor> value = onnx::tensor_value(file_, t);
      if (!value.ok()) return failed(value.error());
      ir::WeightSource source;
      source.bytes = value->type.bytes();
      source.data = value->data;
      model.values[t.name] = model.graph.add_constant(t.name, value->type, std::move(source));
      continue;
    }
    Result<ir::WeightSource> source = onnx::weight_source(file_, t);
    if (!source.ok()) return failed(source.error());
    const ir::TensorType type{*onnx::dtype_of(t.elem_type), t.dims};
    if (!parameter && !statistic) {
      model.values[t.name] = model.graph.add_constant(t.name, type, std::move(source).value());
      continue;
    }
    std::vector<std::string> names{t.name};
    if (const auto found = aliases_.find(t.name); found != aliases_.end()) names.insert(names.end(), found->second.begin(), found->second.end());
    all_names.insert(all_names.end(), names.begin(), names.end());
    if (statistic) {
      model.values[t.name] = model.graph.add_buffer(std::move(names), type, std::move(source).value());
      continue;
    }
    bool trainable = is_floating(type.dtype);
    for (const std::string& name : names) {
      if (metadata_.frozen.count(name) != 0) trainable = false;
      for (const std::string& glob : request.freeze)
        if (freezes(glob, name)) {
          trainable = false;
          unmatched.erase(glob);
        }
    }
    model.values[t.name] = model.graph.add_parameter(std::move(names), type, trainable, std::move(source).value());
  }
  for (const std::string& glob : unmatched) {
    diag::InFlight error = diags.error("P0309");
    error << "model.freeze: '" << glob << "' matches no parameter of " << base_name_;
    const std::string near = diag::nearest(glob, all_names);
    if (!near.empty()) error.help("did you mean '" + near + "'?");
    return error;
  }
  return Status();
}

Result<ir::Graph> OnnxModel::bind(const BindRequest& request, diag::Diagnostics& diags) const {
  BoundModel model;
  model.file = &file_;
  model.local_batch = request.local_batch;
  PIPER_RETURN_IF_ERROR(bind_dims(request, model, diags));
  PIPER_RETURN_IF_ERROR(add_values(request, model, diags));
  if (calls_) PIPER_RETURN_IF_ERROR(aten::import_calls(model, *calls_, metadata_, diags));
  else {
    model.embeddings = embedding_texts(file_);
    PIPER_RETURN_IF_ERROR(onnx::import_nodes(model, diags));
  }
  return fold(aten::recognise_rms_norm(model.graph));
}

}  // namespace piper::frontend
