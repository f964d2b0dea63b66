#include "runtime/checkpoint/weights.h"

#include <filesystem>

namespace piper::checkpoint {

Result<WeightSource> WeightSource::open(const std::string& bundle_directory, const std::string& load_file,
                                        const plan::Manifest& manifest) {
  WeightSource source;
  for (const plan::TensorInfo& tensor : manifest.tensors) source.info_[tensor.name] = &tensor;
  const std::string own = bundle_directory + "/weights/model.safetensors";
  const std::string constants = bundle_directory + "/weights/constants.safetensors";
  source.model_name_ = load_file.empty() ? own : load_file;
  if (!load_file.empty() || std::filesystem::exists(own)) {
    PIPER_ASSIGN(source.model_, plan::SafetensorsFile::open(source.model_name_));
  }
  if (std::filesystem::exists(constants)) {
    PIPER_ASSIGN(source.constants_, plan::SafetensorsFile::open(constants));
  }
  return source;
}

const plan::TensorView* WeightSource::find_tensor(const plan::TensorInfo& tensor) const {
  if (!model_) return nullptr;
  if (const plan::TensorView* view = model_->find(tensor.name)) return view;
  for (const std::string& alias : tensor.aliases)
    if (const plan::TensorView* view = model_->find(alias)) return view;
  return nullptr;
}

Result<plan::TensorView> WeightSource::find(const plan::Placement& placement, bool constant) const {
  const plan::TensorView* view = nullptr;
  auto info = info_.find(placement.name);
  if (constant) {
    if (constants_) view = constants_->find(placement.name);
  } else if (info != info_.end()) {
    view = find_tensor(*info->second);
  } else if (model_) {
    view = model_->find(placement.name);
  }
  if (view == nullptr) {
    if (constant) return Status::failure("R0501", "the bundle's weights hold no constant '" + placement.name + "'");
    if (!model_)
      return Status::failure(
          "R0501", "the bundle has no weights (it was compiled with --weights none): give --load FILE.safetensors");
    return Status::failure("R0501", "'" + model_name_ + "' holds no tensor '" + placement.name + "'");
  }
  if (view->shape == placement.shape && view->dtype == placement.dtype) return *view;
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
