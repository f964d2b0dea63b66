#include "compiler/frontend/pt2_model.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "compiler/frontend/aten/fixed_buffers.h"
#include "compiler/frontend/aten/functionalise.h"
#include "compiler/frontend/aten/import_calls.h"
#include "compiler/frontend/aten/running_statistics.h"
#include "compiler/frontend/bind_slice.h"
#include "compiler/frontend/file_digest.h"
#include "compiler/frontend/pt2/payloads.h"

namespace piper::frontend {
namespace {

using pt2::Placeholder;

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// "top/" of "top/models/NAME.json", and NAME.
struct Location {
  std::string top, name;
};
Result<Location> find_program(const pt2::ZipArchive& archive) {
  std::vector<Location> found;
  bool is_script = false, is_old = false, is_pickle = false;
  for (const auto& [entry, info] : archive.entries()) {
    const size_t at = entry.find("models/");
    if (at != std::string::npos && (at == 0 || entry[at - 1] == '/') && ends_with(entry, ".json") &&
        entry.find('/', at + 7) == std::string::npos)
      found.push_back({entry.substr(0, at), entry.substr(at + 7, entry.size() - at - 12)});
    is_script = is_script || ends_with(entry, "/constants.pkl");
    is_old = is_old || ends_with(entry, "serialized_exported_program.json");
    is_pickle = is_pickle || ends_with(entry, "data.pkl");
  }
  if (found.size() == 1) return found[0];
  if (found.size() > 1)
    return Status::failure("P0301", "it holds " + std::to_string(found.size()) +
                                        " programs; save the one to train with torch.export.save");
  if (is_old) return Status::failure("P0315", "it was saved by an older torch; save it again with torch 2.9 or later");
  if (is_script)
    return Status::failure("P0301",
                           "it is a TorchScript archive; export the model with tools/piper_export.py, or rewrite a "
                           "trace with piper-torchscript");
  if (is_pickle)
    return Status::failure(
        "P0301",
        "it holds weights (torch.save), no program; export the model with torch.export or tools/piper_export.py");
  return Status::failure("P0301", "it is a zip archive without a program; piper reads what torch.export.save writes");
}

// The words of each line of `extra/NAME`, which tools/piper_export.py writes; none where it is not there.
std::vector<std::vector<std::string>> lines_of_extra(const pt2::ZipArchive& archive, const std::string& path) {
  std::vector<std::vector<std::string>> out;
  if (archive.find(path) == nullptr) return out;
  const Result<std::vector<std::byte>> bytes = archive.read(path);
  if (!bytes.ok()) return out;
  std::istringstream lines{std::string(text_of(*bytes))};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    out.emplace_back();
    for (std::string word; words >> word;) out.back().push_back(word);
  }
  return out;
}

// `extra/piper.dims`: lines "s72 B", the user's names of symbols.
std::map<std::string, std::string> names_of_symbols(const pt2::ZipArchive& archive, const std::string& top) {
  std::map<std::string, std::string> out;
  for (const std::vector<std::string>& words : lines_of_extra(archive, top + "extra/piper.dims"))
    if (words.size() == 2) out[words[0]] = words[1];
  return out;
}

// `extra/piper.tied`: a line of names for each tied parameter of a model without weights, where no shared entry of the
// archive says. Name -> the first of its line.
std::map<std::string, std::string> tied_names(const pt2::ZipArchive& archive, const std::string& top) {
  std::map<std::string, std::string> out;
  for (const std::vector<std::string>& names : lines_of_extra(archive, top + "extra/piper.tied"))
    for (const std::string& name : names) out[name] = names[0];
  return out;
}

// `extra/piper.one_sample`: "same".
bool says_same_with_one_sample(const pt2::ZipArchive& archive, const std::string& top) {
  return lines_of_extra(archive, top + "extra/piper.one_sample") == std::vector<std::vector<std::string>>{{"same"}};
}

}  // namespace

Result<std::unique_ptr<ModelFile>> Pt2Model::open(const std::string& path, const std::string& route,
                                                  diag::Diagnostics& diags) {
  std::unique_ptr<Pt2Model> model(new Pt2Model);
  model->path_ = path;
  model->values_.base_name = std::filesystem::path(path).filename().string();
  const auto failed = [&](const Error& error) -> Status {
    return diags.error(error.code) << model->values_.base_name << ": " << error.message;
  };
  if (route == "onnx")
    return diags.error("P0300") << model->values_.base_name
                                << " holds ATen calls, no ONNX operators: route onnx does not apply";
  Result<pt2::ZipArchive> archive = pt2::ZipArchive::open(path);
  if (!archive.ok()) return failed(archive.error());
  if (const Status status = model->read(*archive); !status.ok()) return failed(status.error());
  return std::unique_ptr<ModelFile>(std::move(model));
}

Status Pt2Model::read(const pt2::ZipArchive& archive) {
  PIPER_ASSIGN(const Location at, find_program(archive));
  if (archive.find(at.top + "byteorder") != nullptr) {
    PIPER_ASSIGN(const std::vector<std::byte> order, archive.read(at.top + "byteorder"));
    if (text_of(order) != "little")
      return Status::failure("P0315", "its tensors are stored in the byte order '" + std::string(text_of(order)) +
                                          "'; piper reads little");
  }
  PIPER_ASSIGN(const std::vector<std::byte> json, archive.read(at.top + "models/" + at.name + ".json"));
  PIPER_ASSIGN(pt2::ExportedProgram exported, pt2::read_program(text_of(json), names_of_symbols(archive, at.top)));
  program_ = std::move(exported.program);
  values_.ranges = std::move(exported.ranges);
  PIPER_RETURN_IF_ERROR(read_inputs(exported.placeholders));
  PIPER_RETURN_IF_ERROR(read_tensors(archive, at.top, at.name, exported.placeholders));
  for (const ModelInput& input : values_.inputs)
    if (!input.symbols.empty() && !input.symbols[0].empty())
      if (const auto range = values_.ranges.find(input.symbols[0]); range != values_.ranges.end())
        declared_min_batch_ = std::max(declared_min_batch_, range->second.least);
  same_with_one_sample_ = says_same_with_one_sample(archive, at.top);
  std::map<std::string, aten::Origin> origins;
  for (const Placeholder& p : exported.placeholders) {
    switch (p.kind) {
      case Placeholder::Kind::kParameter: origins[p.name] = aten::Origin::kParameter; break;
      case Placeholder::Kind::kBuffer: origins[p.name] = aten::Origin::kBuffer; break;
      case Placeholder::Kind::kConstant: origins[p.name] = aten::Origin::kConstant; break;
      case Placeholder::Kind::kUserInput: origins[p.name] = aten::Origin::kInput; break;
    }
  }
  PIPER_RETURN_IF_ERROR(aten::functionalise(program_, origins));
  return check_changed_buffers(exported.changed_buffers);
}

Status Pt2Model::read_inputs(const std::vector<Placeholder>& placeholders) {
  for (const Placeholder& p : placeholders) {
    if (p.kind != Placeholder::Kind::kUserInput) continue;
    const auto found = program_.declared.find(p.name);
    if (found == program_.declared.end())
      return Status::failure("P0301", "the type of the input '" + p.name + "' is missing");
    const aten::DeclaredType& type = found->second;
    if (!type.dtype)
      return Status::failure("P0307",
                             "input '" + p.name + "' has the type " + type.dtype_name +
                                 ": inputs must be tensors of float32, float64, bfloat16, int64, int32 or bool");
    ModelInput input;
    input.name = p.name;
    input.dtype = *type.dtype;
    for (const aten::DeclaredDim& d : type.dims) {
      input.shape.push_back(d.extent);
      input.symbols.push_back(d.expression);
    }
    program_.placeholders[p.name] = p.name;
    values_.inputs.push_back(std::move(input));
  }
  values_.fixed_batch = fixed_batch_of(values_.inputs);
  return Status();
}

Status Pt2Model::read_tensors(const pt2::ZipArchive& archive, const std::string& top, const std::string& name,
                              const std::vector<Placeholder>& placeholders) {
  struct Folder {
    std::string path;
    std::map<std::string, pt2::Payload> payloads;
  };
  std::vector<Folder> folders;
  for (const auto& [folder, config] : {std::pair<std::string, std::string>{"data/weights/", "_weights_config.json"},
                                       {"data/constants/", "_constants_config.json"}}) {
    const std::string path = top + folder + name + config;
    PIPER_ASSIGN(const std::vector<std::byte> json, archive.read(path));
    Result<std::map<std::string, pt2::Payload>> payloads = pt2::read_payload_config(text_of(json));
    if (!payloads.ok()) return payloads.take_status().with_context("'" + path + "'");
    folders.push_back({top + folder, std::move(payloads).value()});
  }
  std::set<std::string> statistics = aten::running_statistics(program_), persistent, constants;
  std::set<std::string> updated;  // entries of running statistics: a module that has two names is called by one
  for (const Placeholder& p : placeholders)
    if (const auto found = folders[0].payloads.find(p.target);
        found != folders[0].payloads.end() && statistics.count(p.name) != 0)
      updated.insert(found->second.path);
  for (const Placeholder& p : placeholders)
    if (const auto found = folders[0].payloads.find(p.target); found != folders[0].payloads.end() &&
                                                               p.kind == Placeholder::Kind::kBuffer &&
                                                               updated.count(found->second.path) != 0)
      statistics.insert(p.name);
  for (const Placeholder& p : placeholders)
    if (p.persistent && statistics.count(p.name) == 0 && !aten::counts_batches(p.target)) persistent.insert(p.name);
    else if (p.kind == Placeholder::Kind::kConstant || p.kind == Placeholder::Kind::kBuffer) constants.insert(p.name);
  const std::set<std::string> fixed = aten::fixed_buffers(program_, persistent, constants);
  const std::map<std::string, std::string> tied = tied_names(archive, top);
  std::map<std::pair<std::string, std::string>, size_t>
      stored;  // folder and entry -> position in values_.tensors, of what has a name in the state dict
  std::map<size_t, pt2::Payload> layouts;
  for (const Placeholder& p : placeholders) {
    if (p.kind == Placeholder::Kind::kUserInput) continue;
    const Folder* folder = nullptr;
    for (const Folder& f : folders)
      if (folder == nullptr && f.payloads.count(p.target) != 0) folder = &f;
    if (folder == nullptr)
      return Status::failure(
          "P0310", "the archive has lost the " +
                       std::string(p.kind == Placeholder::Kind::kParameter ? "parameter '" : "tensor '") + p.target +
                       "'");
    const pt2::Payload& payload = folder->payloads.at(p.target);
    const bool statistic = statistics.count(p.name) != 0;
    StoredTensor t;
    t.names = {p.target};
    t.role = p.kind == Placeholder::Kind::kParameter ? StoredTensor::Role::kParameter
             : statistic                             ? StoredTensor::Role::kBuffer
             : persistent.count(p.name) == 0         ? StoredTensor::Role::kConstant
             : fixed.count(p.name) != 0              ? StoredTensor::Role::kFixedBuffer
                                                     : StoredTensor::Role::kReadBuffer;
    t.trainable = payload.requires_grad;
    program_.placeholders[p.name] = p.target;
    if (t.role != StoredTensor::Role::kConstant) {
      const auto tie = tied.find(p.target);
      // torch stores tensors of no elements in one place; they are no views of each other.
      const bool empty = std::count(payload.sizes.begin(), payload.sizes.end(), 0) > 0;
      const std::string& entry = empty               ? p.target
                                 : !payload.is_meta  ? payload.path
                                 : tie == tied.end() ? p.target
                                                     : tie->second;
      const auto [same, fresh] =
          stored.emplace(std::pair(payload.is_meta ? std::string() : folder->path, entry), values_.tensors.size());
      const bool is_same = !fresh && layouts.at(same->second) == payload;
      const bool trains = t.role == StoredTensor::Role::kParameter ||
                          (!fresh && values_.tensors[same->second].role == StoredTensor::Role::kParameter);
      if (!fresh && (is_same || trains)) {
        if (!is_same)
          return Status::failure("P0301", "'" + p.target + "' and '" + values_.tensors[same->second].names[0] +
                                              "' are different views of one tensor, which piper cannot train");
        values_.tensors[same->second].names.push_back(p.target);
        program_.placeholders[p.name] = values_.tensors[same->second].names[0];
        continue;
      }
      if (fresh) layouts.emplace(values_.tensors.size(), payload);
    }
    if (payload.is_meta && t.role != StoredTensor::Role::kParameter)
      return Status::failure("P0310", "the buffer '" + p.target +
                                          "' was made on torch's meta device, so its values are lost: make the model "
                                          "under piper_export.without_weights(), which keeps buffers");
    Result<ir::WeightSource> source = pt2::payload_source(archive, folder->path, payload);
    if (!source.ok()) return source.take_status().with_context("tensor '" + p.target + "'");
    t.type = {*payload.dtype, payload.sizes};
    t.source = std::move(source).value();
    values_.tensors.push_back(std::move(t));
  }
  return Status();
}

// A program without calls in place says which buffers a step changes: running statistics, which the
// operator updates itself, and counters that nothing reads. Everything else would be lost.
Status Pt2Model::check_changed_buffers(const std::map<std::string, std::string>& changed) const {
  for (const auto& [buffer, value] : changed) {
    if (aten::counts_batches(buffer)) continue;
    if (!aten::is_made_by_batch_norm(program_, value))
      return Status::failure("P0314", "a step of the model changes the buffer '" + buffer + "'");
  }
  return Status();
}

std::string Pt2Model::sha256() const { return file_digest(path_, {}); }

std::map<std::string, ir::TagSet> Pt2Model::node_tags() const {
  std::map<std::string, ir::TagSet> out;
  for (const aten::ProgramCall& c : program_.calls)
    if (!c.tags.empty()) out[c.call.name] = c.tags;
  return out;
}

Result<BoundGraph> Pt2Model::bind(const BindRequest& request, diag::Diagnostics& diags) const {
  const auto import = [this](const BindRequest& asked, diag::Diagnostics& into) { return this->import(asked, into); };
  return bind_slice(values_, request, import, diags);
}

Result<ir::Graph> Pt2Model::import(const BindRequest& request, diag::Diagnostics& diags) const {
  BoundModel model;
  PIPER_RETURN_IF_ERROR(bind_values(values_, request, model, diags));
  PIPER_RETURN_IF_ERROR(aten::import_calls(model, program_, diags));
  return std::move(model.graph);
}

}  // namespace piper::frontend
