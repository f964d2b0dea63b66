#include "compiler/frontend/onnx_model.h"

#include <filesystem>
#include <set>

#include "compiler/frontend/aten/fixed_buffers.h"
#include "compiler/frontend/aten/import_calls.h"
#include "compiler/frontend/aten/onnx_calls.h"
#include "compiler/frontend/aten/running_statistics.h"
#include "compiler/frontend/damage.h"
#include "compiler/frontend/bind_slice.h"
#include "compiler/frontend/file_digest.h"
#include "compiler/frontend/onnx/import_nodes.h"
#include "compiler/frontend/onnx/node_origin.h"

namespace piper::frontend {
namespace {}  // namespace

Result<std::unique_ptr<ModelFile>> OnnxModel::open(const std::string& path, const std::string& route,
                                                   diag::Diagnostics& diags) {
  Result<onnx::OnnxFile> file = onnx::read_onnx(path);
  if (!file.ok()) return diags.error(file.error().code) << file.error().message;
  std::unique_ptr<OnnxModel> model(new OnnxModel);
  model->path_ = path;
  model->values_.base_name = std::filesystem::path(path).filename().string();
  model->file_ = std::move(file).value();
  model->metadata_ = read_export_metadata(model->file_);
  PIPER_RETURN_IF_ERROR(model->read_inputs(diags));
  TextCalls texts(model->file_);
  PIPER_RETURN_IF_ERROR(check_damage(texts, model->metadata_, diags));

  const bool has_texts = aten::every_node_has_text(model->file_);
  if (route == "fx" && !has_texts)
    return diags.error("P0304").help("export with torch.onnx.export(..., optimize=False), or take `route: onnx`")
           << model->values_.base_name
           << ": not every node carries its ATen call, so the file cannot be imported by route fx";
  if (has_texts && route != "onnx") {
    Result<aten::Program> program = aten::read_onnx_calls(model->file_, model->metadata_);
    if (!program.ok())
      return diags.error(program.error().code) << model->values_.base_name << ": " << program.error().message;
    model->program_ = std::move(program).value();
  } else {
    PIPER_RETURN_IF_ERROR(check_operator_route(texts, diags));
    model->embeddings_ = embedding_texts(texts);
  }
  model->find_buffers();
  PIPER_RETURN_IF_ERROR(model->read_tensors(texts, diags));
  PIPER_RETURN_IF_ERROR(model->check_changed_state(diags));
  return std::unique_ptr<ModelFile>(std::move(model));
}

Status OnnxModel::read_inputs(diag::Diagnostics& diags) {
  for (const onnx::OnnxValueInfo& v : file_.inputs) {
    const std::optional<DType> dtype = onnx::dtype_of(v.elem_type);
    if (!v.is_tensor || !v.has_shape || !dtype)
      return diags.error("P0307")
             << "input '" << v.name << "' of " << values_.base_name << " has the type "
             << onnx::elem_type_name(v.elem_type)
             << ": inputs must be tensors of float32, float64, bfloat16, int64, int32 or bool with a shape";
    ModelInput input;
    input.name = v.name;
    input.dtype = *dtype;
    for (const onnx::OnnxDim& d : v.dims) {
      input.shape.push_back(d.value);
      input.symbols.push_back(d.value < 0 ? d.symbol : "");
    }
    // The least of all ranges: the file does not say whose they are. One sample is warned of, not refused.
    for (size_t axis = 0; axis < input.symbols.size(); ++axis)
      if (!input.symbols[axis].empty() && metadata_.declared_min_batch >= (axis == 0 ? 3 : 2))
        values_.ranges[input.symbols[axis]].least = metadata_.declared_min_batch;
    values_.inputs.push_back(std::move(input));
  }
  for (const onnx::OnnxValueInfo& v : file_.outputs) outputs_.push_back(v.name);
  values_.fixed_batch = fixed_batch_of(values_.inputs);
  for (const onnx::OnnxValueInfo& v : file_.value_info)
    if (const std::string_view* kind = v.metadata.find("pkg.torch.export.graph_signature.InputSpec.kind"))
      kinds_[v.name] = *kind;
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

// Tags go by FX name; the operator route names its ops after ONNX nodes.
std::map<std::string, ir::TagSet> OnnxModel::node_tags() const {
  if (program_) return metadata_.tags;
  std::map<std::string, ir::TagSet> out;
  for (const onnx::OnnxNode& node : file_.nodes)
    if (const auto tags = metadata_.tags.find(onnx::node_fx_name(node)); tags != metadata_.tags.end())
      out[node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name] = tags->second;
  return out;
}

std::vector<std::string> OnnxModel::unsaid_numbers() const {
  std::vector<std::string> names;
  for (const StoredTensor& t : values_.tensors)
    if (t.is_unsaid) names.push_back(t.names[0]);
  return names;
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
  const std::string word = tensor.name.substr(tensor.name.rfind('.') + 1);
  return dtype && is_floating(*dtype) && !tensor.dims.empty() && word != "running_mean" && word != "running_var";
}

// Operators alone do not say what is a mask: there a buffer of numbers is read, and one of integers or truth values
// fixed.
void OnnxModel::find_buffers() {
  std::set<std::string> persistent, constants;  // placeholders
  std::map<std::string, std::string> initializers;
  for (const SignatureEntry& e : metadata_.inputs) {
    const bool kept =
        e.kind == "BUFFER" && e.persistent && !is_running_statistic(e.target) && !aten::counts_batches(e.target);
    if (kept) persistent.insert(e.name);
    else if (e.kind == "BUFFER" || e.kind == "CONSTANT_TENSOR") constants.insert(e.name);
    initializers[e.name] = e.target;
  }
  const std::set<std::string> fixed =
      program_ ? aten::fixed_buffers(*program_, persistent, constants) : std::set<std::string>();
  for (const std::string& placeholder : persistent)
    buffers_[initializers[placeholder]] =
        fixed.count(placeholder) != 0 ? StoredTensor::Role::kFixedBuffer : StoredTensor::Role::kReadBuffer;
  if (program_) return;
  for (const onnx::OnnxTensor& t : file_.initializers)
    if (const auto buffer = buffers_.find(t.name);
        buffer != buffers_.end() && !is_floating(*onnx::dtype_of(t.elem_type)))
      buffer->second = StoredTensor::Role::kFixedBuffer;
}

Status OnnxModel::read_tensors(TextCalls& texts, diag::Diagnostics& diags) {
  const std::map<std::string, std::vector<std::string>> aliases = tied_aliases(texts, metadata_);
  for (const onnx::OnnxTensor& t : file_.initializers) {
    Result<ir::WeightSource> source = onnx::weight_source(file_, t);
    if (!source.ok())
      return diags.error(source.error().code)
             << values_.base_name << ": initializer '" << t.name << "': " << source.error().message;
    StoredTensor stored;
    stored.names = {t.name};
    stored.type = {*onnx::dtype_of(t.elem_type), t.dims};
    stored.source = std::move(source).value();
    stored.is_unsaid = !metadata_.has_signature && kinds_.count(t.name) == 0 && is_floating(stored.type.dtype);
    if (is_parameter(t)) stored.role = StoredTensor::Role::kParameter;
    else if (is_running_statistic(t.name)) stored.role = StoredTensor::Role::kBuffer;
    else if (const auto buffer = buffers_.find(t.name); buffer != buffers_.end()) stored.role = buffer->second;
    if (const auto found = aliases.find(t.name); found != aliases.end() && stored.role != StoredTensor::Role::kConstant)
      stored.names.insert(stored.names.end(), found->second.begin(), found->second.end());
    for (const std::string& name : stored.names)
      if (metadata_.frozen.count(name) != 0) stored.trainable = false;
    values_.tensors.push_back(std::move(stored));
  }
  return Status();
}

// The file holds a change of state by name alone: the operator that makes it is there where something else reads its
// result.
Status OnnxModel::check_changed_state(diag::Diagnostics& diags) const {
  std::set<std::string> statistics;
  if (program_) {
    for (const std::string& placeholder : aten::running_statistics(*program_))
      if (const auto found = metadata_.placeholders.find(placeholder); found != metadata_.placeholders.end())
        statistics.insert(found->second);
  } else {
    for (const onnx::OnnxNode& node : file_.nodes)
      if (node.op_type == "BatchNormalization" && node.inputs.size() == 5)
        statistics.insert(node.inputs.begin() + 3, node.inputs.end());
  }
  std::set<std::string> initializers;
  for (const onnx::OnnxTensor& t : file_.initializers) initializers.insert(t.name);
  for (const SignatureEntry& e : metadata_.outputs) {
    if (e.kind != "BUFFER_MUTATION" && e.kind != "PARAMETER_MUTATION") continue;
    if (aten::counts_batches(e.target) && initializers.count(e.target) == 0) continue;  // nothing reads it
    if (statistics.count(e.target) != 0 && (!program_ || aten::is_made_by_batch_norm(*program_, e.name))) continue;
    return diags.error("P0314") << values_.base_name << ": a step of the model changes the "
                                << (e.kind == "BUFFER_MUTATION" ? "buffer '" : "parameter '") << e.target << "'";
  }
  return Status();
}

Result<BoundGraph> OnnxModel::bind(const BindRequest& request, diag::Diagnostics& diags) const {
  const auto import = [this](const BindRequest& asked, diag::Diagnostics& into) { return this->import(asked, into); };
  return bind_slice(values_, request, import, diags);
}

Result<ir::Graph> OnnxModel::import(const BindRequest& request, diag::Diagnostics& diags) const {
  BoundModel model;
  model.file = &file_;
  PIPER_RETURN_IF_ERROR(bind_values(values_, request, model, diags));
  if (program_) PIPER_RETURN_IF_ERROR(aten::import_calls(model, *program_, diags));
  else {
    model.embeddings = embeddings_;
    PIPER_RETURN_IF_ERROR(onnx::import_nodes(model, diags));
  }
  return std::move(model.graph);
}

}  // namespace piper::frontend
