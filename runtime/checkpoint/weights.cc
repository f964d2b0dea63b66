#include "runtime/checkpoint/weights.h"

#include <algorithm>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/convert_elements.h"

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

// A master and its copy are filled from the same elements, of either's type.
bool fits(const plan::Placement& placement, DType stored) {
  const bool converts =
      placement.kind == plan::PlacementKind::kMaster || placement.kind == plan::PlacementKind::kWorking;
  return placement.dtype == stored || (converts && can_convert_elements(stored, placement.dtype));
}

}  // namespace

Result<WeightSource> WeightSource::open(const std::string& bundle_directory, const std::string& load_file,
                                        const plan::Manifest& manifest) {
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
  if (load_file.empty()) {
    source.model_name_ = bundle_directory + "/" + std::string(plan::kModelWeights);
    PIPER_RETURN_IF_ERROR(own(plan::kModelWeights, source.model_));
  } else {
    source.model_name_ = load_file;
    PIPER_ASSIGN(source.model_, plan::WeightFiles::open(load_file));
  }
  PIPER_RETURN_IF_ERROR(own(plan::kConstantWeights, source.constants_));
  return source;
}

Status WeightSource::check(const std::byte* data, int64_t bytes) const {
  for (const auto& file : chunked_)
    if (file->holds(data)) return file->check(data, bytes);
  return {};
}

void WeightSource::replace(std::map<std::string, std::vector<std::byte>> tensors) {
  model_.reset();
  model_name_ = "--init";
  replaced_ = std::make_shared<const std::map<std::string, std::vector<std::byte>>>(std::move(tensors));
  in_memory_.clear();
  for (const auto& [name, bytes] : *replaced_) {
    const plan::TensorInfo& tensor = *info_.at(name);
    in_memory_[name] = {tensor.dtype, tensor.shape, bytes.data(), static_cast<int64_t>(bytes.size())};
  }
}

const plan::TensorView* WeightSource::find_tensor(const plan::TensorInfo& tensor) const {
  if (const auto found = in_memory_.find(tensor.name); found != in_memory_.end()) return &found->second;
  if (!model_) return nullptr;
  if (const plan::TensorView* view = model_->find(tensor.name)) return view;
  for (const std::string& alias : tensor.aliases)
    if (const plan::TensorView* view = model_->find(alias)) return view;
  return nullptr;
}

Result<plan::TensorView> WeightSource::find(const plan::Placement& placement) const {
  const bool constant = placement.kind == plan::PlacementKind::kConstant;
  const plan::TensorView* view = nullptr;
  auto info = info_.find(placement.name);
  if (constant) {
    if (constants_) view = constants_->find(placement.name);
  } else if (replaced_ && placement.kind == plan::PlacementKind::kState) {
    view = nullptr;  // running statistics are no parameters
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
    if (!model_)
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
                                      text(placement.dtype, placement.shape));
}

}  // namespace piper::checkpoint
