#include "runtime/checkpoint/training_state.h"

#include <algorithm>

#include "schemas/plan/convert_elements.h"
#include "schemas/plan/optimizers.h"

namespace piper::checkpoint {

namespace {

std::string described(DType dtype, const std::vector<int64_t>& shape) {
  std::string text = std::string(dtype_name(dtype)) + " [";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Status differs(const std::string& what) {
  return Status::failure("R0703", "the checkpoint is of another training: " + what);
}

}  // namespace

Status check_same_model(const Manifest& checkpoint, const plan::Manifest& manifest,
                        const std::vector<StatePart>& parts) {
  for (const StoredTensor& tensor : checkpoint.tensors) {
    if (tensor.kind != StateKind::kParameter && tensor.kind != StateKind::kBuffer) continue;
    const bool known = std::any_of(manifest.tensors.begin(), manifest.tensors.end(),
                                   [&](const plan::TensorInfo& info) { return info.name == tensor.name; });
    if (!known) return differs("the model has no tensor '" + tensor.name + "'");
  }
  for (const StatePart& part : parts) {
    const StoredTensor* const stored = find_tensor(checkpoint, part.kind, part.name);
    // Without one the count begins as in a new run: a plan that scales the loss goes on from one that does not.
    if (stored == nullptr && part.kind == StateKind::kTraining) continue;
    const std::string label = std::string(state_kind_name(part.kind)) + " '" + part.name + "'";
    if (stored == nullptr) return differs("it holds no " + label);
    const bool fits = stored->dtype == part.dtype || (part.copy && can_convert_elements(stored->dtype, part.dtype));
    if (!fits || stored->shape != part.shape)
      return differs(label + " is " + described(stored->dtype, stored->shape) + ", the plan has " +
                     described(part.dtype, part.shape));
  }
  return {};
}

Status check_same_training(const Manifest& checkpoint, const plan::Manifest& manifest,
                           const std::vector<StatePart>& parts) {
  const std::string title = plan::optimizer_title(manifest.optimizer);
  if (checkpoint.optimizer != title)
    return differs("its optimizer is " + checkpoint.optimizer + ", the plan's is " + title);
  PIPER_RETURN_IF_ERROR(check_same_model(checkpoint, manifest, parts));
  // A tensor that the other of two optimizers updated has other moments; too few are found above.
  for (const plan::TensorInfo& tensor : manifest.tensors)
    if (tensor.trained && static_cast<size_t>(tensor.group) < manifest.optimizer.groups.size() &&
        plan::group_update(manifest.optimizer, tensor.group).num_moments() < 2 &&
        find_tensor(checkpoint, StateKind::kSecondMoment, tensor.name) != nullptr)
      return differs("it holds a second moment of '" + tensor.name + "', of which the plan's optimizer has none");
  return {};
}

}  // namespace piper::checkpoint
