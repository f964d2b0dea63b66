#include "runtime/checkpoint/weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>

#include "runtime/checkpoint/missing_weights.h"
#include "schemas/plan/bundle_files.h"
#include "schemas/plan/convert_elements.h"
#include "schemas/plan/file_bytes.h"

namespace piper::checkpoint {

bool is_weight(const plan::Placement& placement) {
  switch (placement.kind) {
    case plan::PlacementKind::kValue:
    case plan::PlacementKind::kMaster:
    case plan::PlacementKind::kWorking:
    case plan::PlacementKind::kState:
    case plan::PlacementKind::kConstant: return true;
    case plan::PlacementKind::kGradient:
    case plan::PlacementKind::kFirstMoment:
    case plan::PlacementKind::kSecondMoment: return false;
  }
  return false;
}

namespace {

// A master and its copy are filled from the same elements, of either's type. Elsewhere f32 takes every number of a
// narrower type as it is.
bool fits(const plan::Placement& placement, DType stored) {
  const bool converts = placement.kind == plan::PlacementKind::kMaster ||
                        placement.kind == plan::PlacementKind::kWorking || placement.dtype == DType::kF32;
  return placement.dtype == stored || (converts && can_convert_elements(stored, placement.dtype));
}

// By its own name or another one of a tied weight.
const plan::TensorView* find_by_names(const plan::WeightFiles& files, const plan::TensorInfo& tensor) {
  if (const plan::TensorView* view = files.find(tensor.name)) return view;
  for (const std::string& alias : tensor.aliases)
    if (const plan::TensorView* view = files.find(alias)) return view;
  return nullptr;
}

Status another_value(const std::string& name) {
  return Status::failure("R0504", "the buffer '" + name +
                                      "' has another value there than in the model that was compiled, and the plan was "
                                      "made from that value");
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > kShown ? text + " and " + std::to_string(names.size() - kShown) + " more" : text;
}

Result<WeightSource> WeightSource::open(const std::string& bundle_directory, const std::string& load_file,
                                        const plan::Manifest& manifest, const LoadOptions& options) {
  WeightSource source;
  for (const plan::TensorInfo& tensor : manifest.tensors) source.info_[tensor.name] = &tensor;
  // Nothing where the bundle has no such file.
  const auto own = [&](std::string_view path, std::optional<plan::WeightFiles>& file) -> Status {
    const auto entry =
        std::find_if(manifest.files.begin(), manifest.files.end(), [&](const auto& f) { return f.path == path; });
    if (entry == manifest.files.end()) return {};
    PIPER_ASSIGN(const auto chunked, plan::ChunkedFile::open(bundle_directory, *entry));
    PIPER_ASSIGN(plan::SafetensorsFile opened, plan::SafetensorsFile::open(chunked->file(), chunked->path(),
                                                                           [&](const std::byte* data, int64_t bytes) {
                                                                             return chunked->check(data, bytes);
                                                                           }));
    file.emplace(std::move(opened));
    source.chunked_.push_back(chunked);
    return {};
  };
  if (!options.adapters.empty()) {
    PIPER_ASSIGN(source.adapters_, plan::WeightFiles::open(options.adapters));
    PIPER_RETURN_IF_ERROR(check_adapters(manifest, *source.adapters_, options.adapters));
  }
  if (load_file.empty()) {
    source.model_name_ = bundle_directory + "/" + std::string(plan::kModelWeights);
    PIPER_RETURN_IF_ERROR(own(plan::kModelWeights, source.model_));
  } else {
    source.model_name_ = load_file;
    source.loaded_ = true;
    PIPER_ASSIGN(source.model_, plan::WeightFiles::open(load_file));
    const bool compares = std::any_of(source.info_.begin(), source.info_.end(), [](const auto& tensor) {
      return tensor.second->buffer == plan::ModelBuffer::kFixed;
    });
    std::vector<const plan::WeightFiles*> files = {&*source.model_};
    if (source.adapters_) files.push_back(&*source.adapters_);
    PIPER_ASSIGN(source.missing_, missing_weights(manifest, files, options.missing));
    if (compares || !source.missing_.empty()) PIPER_RETURN_IF_ERROR(own(plan::kModelWeights, source.own_));
  }
  PIPER_RETURN_IF_ERROR(own(plan::kConstantWeights, source.constants_));
  if (!load_file.empty()) PIPER_RETURN_IF_ERROR(source.check_loaded(*source.model_).with_context(load_file));
  if (source.adapters_) PIPER_RETURN_IF_ERROR(source.check_loaded(*source.adapters_).with_context(options.adapters));
  return source;
}

// One tensor of the model may be taken from either of its names only where both hold the same.
Status check_tied(const plan::WeightFiles& files, const plan::TensorInfo& tensor) {
  const plan::TensorView* first = files.find(tensor.name);
  std::string first_name = tensor.name;
  for (const std::string& alias : tensor.aliases) {
    const plan::TensorView* const other = files.find(alias);
    if (other == nullptr) continue;
    if (first == nullptr) {
      first = other;
      first_name = alias;
      continue;
    }
    const bool same =
        first->dtype == other->dtype && first->shape == other->shape &&
        (first->data == other->data || std::memcmp(first->data, other->data, static_cast<size_t>(first->bytes)) == 0);
    if (!same)
      return Status::failure(
          "R0506", "'" + first_name + "' and '" + alias +
                       "' are one parameter in the compiled model (a tied weight), but have "
                       "different values in this file\nhelp: export the model with two separate parameters, compile it "
                       "again and load these weights into that plan; or drop one of them from the "
                       "file");
  }
  return {};
}

// The buffers of whose values the plan is made; those that the loaded file does not have are as they were.
Status WeightSource::check_loaded(const plan::WeightFiles& files) const {
  for (const auto& [name, tensor] : info_) {
    PIPER_RETURN_IF_ERROR(check_tied(files, *tensor));
    if (tensor->buffer != plan::ModelBuffer::kFixed) continue;
    const plan::TensorView* const loaded = find_by_names(files, *tensor);
    if (loaded == nullptr) continue;
    if (loaded->dtype != tensor->dtype || loaded->shape != tensor->shape) return another_value(name);
    PIPER_RETURN_IF_ERROR(check_fixed(name, 0, loaded->data, loaded->bytes));
  }
  return {};
}

LoadReport WeightSource::load_report() const {
  LoadReport report;
  if (!loaded_ || !model_) return report;
  std::set<std::string> known;
  for (const auto& [name, tensor] : info_) {
    known.insert(name);
    known.insert(tensor->aliases.begin(), tensor->aliases.end());
    if (find_by_names(*model_, *tensor) == nullptr) report.missing.push_back(name);
  }
  for (const std::string& name : model_->names()) (known.count(name) > 0 ? report.used : report.unused).push_back(name);
  return report;
}

Status WeightSource::check_fixed(const std::string& name, int64_t offset, const std::byte* data, int64_t bytes,
                                 const plan::ElementOrder& order) const {
  const auto info = info_.find(name);
  if (bytes == 0 || info == info_.end() || info->second->buffer != plan::ModelBuffer::kFixed) return {};
  const plan::TensorView* const compiled = find_tensor(*info->second);
  if (compiled == nullptr) return Status::failure("R0501", "the bundle's weights hold no buffer '" + name + "'");
  const int64_t element = dtype_bytes(compiled->dtype);
  for (const plan::ElementRun& run : order.row_major_runs(offset / element, bytes / element)) {
    const std::byte* const expected = compiled->data + run.there * element;
    PIPER_RETURN_IF_ERROR(check(expected, run.count * element));
    if (std::memcmp(expected, data + run.at * element, static_cast<size_t>(run.count * element)) != 0)
      return another_value(name);
  }
  return {};
}

Status WeightSource::read(const plan::TensorView& found, const plan::ElementOrder& order, int64_t first, int64_t count,
                          const plan::UsePiece& take) const {
  const int64_t element = dtype_bytes(found.dtype);
  if (order.row_major()) {
    PIPER_RETURN_IF_ERROR(check(found.data + first * element, count * element));
    return take(0, count, found.data + first * element);
  }
  const auto fill = [&](int64_t at, int64_t n, std::byte* to) -> Status {
    for (const plan::ElementRun& run : order.row_major_runs(first + at, n)) {
      const std::byte* const from = found.data + run.there * element;
      PIPER_RETURN_IF_ERROR(check(from, run.count * element));
      std::memcpy(to + run.at * element, from, static_cast<size_t>(run.count * element));
    }
    return {};
  };
  return plan::gather_pieces(count, element, fill, take);
}

Status WeightSource::check(const std::byte* data, int64_t bytes) const {
  for (const auto& file : chunked_)
    if (file->holds(data)) return file->check(data, bytes);
  return {};
}

void WeightSource::replace(std::map<std::string, std::vector<std::byte>> tensors) {
  own_ = std::move(model_);
  model_.reset();
  model_name_ = "--init";
  replaced_ = std::make_shared<const std::map<std::string, std::vector<std::byte>>>(std::move(tensors));
  in_memory_.clear();
  for (const auto& [name, bytes] : *replaced_) {
    const plan::TensorInfo& tensor = *info_.at(name);
    in_memory_[name] = {tensor.dtype, tensor.shape, bytes.data(), static_cast<int64_t>(bytes.size())};
  }
}

std::string WeightSource::quick_digest() const {
  // Models of thousands of experts take no longer than others.
  constexpr size_t kMostTensors = 1024;
  std::ostringstream text;
  const auto add = [&](const char* option, const std::vector<std::string>& names, const auto& find) {
    if (!names.empty()) text << option << '\n';
    const size_t stride = names.size() / kMostTensors + 1;
    for (size_t i = 0; i < names.size(); ++i) {
      const plan::TensorView& view = *find(names[i]);
      text << names[i] << ' ' << dtype_name(view.dtype);
      for (const int64_t extent : view.shape) text << ' ' << extent;
      if (i % stride == 0)
        text << ' ' << plan::sha256_of_blocks(plan::text_of(view.data, view.bytes), plan::kQuickBlocks);
      text << '\n';
    }
  };
  std::vector<std::string> drawn;
  for (const auto& [name, view] : in_memory_) drawn.push_back(name);
  add("--init", drawn, [this](const std::string& name) { return &in_memory_.at(name); });
  if (loaded_ && model_) add("--load", model_->names(), [this](const std::string& name) { return model_->find(name); });
  if (adapters_)
    add("--adapters", adapters_->names(), [this](const std::string& name) { return adapters_->find(name); });
  for (const std::string& name : missing_) text << "missing " << name << '\n';
  return text.str().empty() ? "" : plan::sha256(text.str());
}

const plan::TensorView* WeightSource::find_tensor(const plan::TensorInfo& tensor) const {
  if (const auto found = in_memory_.find(tensor.name); found != in_memory_.end()) return &found->second;
  if (adapters_ && tensor.buffer != plan::ModelBuffer::kFixed)
    if (const plan::TensorView* view = find_by_names(*adapters_, tensor)) return view;
  const bool as_compiled = replaced_ || tensor.buffer == plan::ModelBuffer::kFixed || missing_.count(tensor.name) > 0;
  const std::optional<plan::WeightFiles>& files = as_compiled && own_ ? own_ : model_;
  return files ? find_by_names(*files, tensor) : nullptr;
}

Result<plan::TensorView> WeightSource::find(const plan::Placement& placement) const {
  const bool constant = placement.kind == plan::PlacementKind::kConstant;
  const plan::TensorView* view = nullptr;
  auto info = info_.find(placement.name);
  if (constant) {
    if (constants_) view = constants_->find(placement.name);
  } else if (replaced_ && placement.kind == plan::PlacementKind::kState) {  // running statistics are not drawn
    view = own_ && info != info_.end() ? find_by_names(*own_, *info->second) : nullptr;
  } else if (info != info_.end()) {
    view = find_tensor(*info->second);
  } else if (model_) {
    view = model_->find(placement.name);
  }
  if (view == nullptr) {
    if (constant) return Status::failure("R0501", "the bundle's weights hold no constant '" + placement.name + "'");
    if (replaced_)
      return Status::failure("R0501", "--init draws f32, bf16 and f16 parameters, and '" + placement.name +
                                          "' is none: give --load FILE.safetensors");
    if (!loaded_ || missing_.count(placement.name) > 0)
      return Status::failure("R0501",
                             "the bundle has no weights (it was compiled with --weights none): give --load "
                             "FILE.safetensors, or --init normal:0.02");
    return Status::failure("R0501", "'" + model_name_ + "' holds no tensor '" + placement.name + "'");
  }
  if (view->shape == placement.shape && fits(placement, view->dtype)) return *view;
  auto text = [](DType dtype, const std::vector<int64_t>& shape) {
    std::string result = std::string(dtype_name(dtype)) + " [";
    for (size_t i = 0; i < shape.size(); ++i) result += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return result + "]";
  };
  return Status::failure("R0502", "tensor '" + placement.name + "' of '" + model_name_ + "' is " +
                                      text(view->dtype, view->shape) + ", the plan needs " +
                                      text(placement.dtype, placement.shape) +
                                      "\nhelp: load weights of the model that was compiled, or compile the model that "
                                      "these are of: piperc MODEL --strategy FILE -o DIR");
}

}  // namespace piper::checkpoint
