#include "runtime/checkpoint/finite_state.h"

#include "runtime/trace/digest_values.h"

namespace piper::checkpoint {

namespace {

const char* kind_text(StateKind kind) {
  switch (kind) {
    case StateKind::kParameter: return "parameter ";
    case StateKind::kFirstMoment: return "the first moment of ";
    case StateKind::kSecondMoment: return "the second moment of ";
    case StateKind::kBuffer: return "buffer ";
    case StateKind::kTraining: return "";
  }
  return "";
}

trace::NotFinite look_at(DType dtype, const std::byte* elements, int64_t count) {
  plan::Operand dense;
  dense.dtype = dtype;
  dense.shape = {count};
  dense.strides = {1};
  return trace::find_not_finite(dense, elements);
}

}  // namespace

FiniteState::FiniteState(const plan::Manifest& manifest, const WeightSource* weights, const OpenCheckpoint* resume)
    : weights_(weights), resume_(resume) {
  for (const plan::TensorInfo& tensor : manifest.tensors)
    if (tensor.trained) trained_[tensor.name] = &tensor;
}

bool FiniteState::covers(StateKind kind, const std::string& name) const {
  return kind == StateKind::kFirstMoment || kind == StateKind::kSecondMoment ||
         (kind == StateKind::kParameter && trained_.count(name) > 0);
}

bool FiniteState::began_so(StateKind kind, const std::string& name) const {
  if (resume_ != nullptr) {
    const StoredTensor* const stored = find_tensor(resume_->manifest(), kind, name);
    if (stored == nullptr || stored->parts.empty()) return false;
    bool found = false;
    const int64_t element = dtype_bytes(stored->dtype);
    const Status read = resume_->read(*stored, stored->order(), 0, stored->parts.back().end,
                                      [&](int64_t, const std::byte* data, int64_t bytes) {
                                        found = found || look_at(stored->dtype, data, bytes / element).any();
                                        return Status();
                                      });
    return read.ok() && found;
  }
  if (weights_ == nullptr || kind != StateKind::kParameter) return false;  // moments begin with zeros
  const plan::TensorView* const view = weights_->find_tensor(*trained_.at(name));
  return view != nullptr && look_at(view->dtype, view->data, view->bytes / dtype_bytes(view->dtype)).any();
}

std::string FiniteState::fault(StateKind kind, const std::string& name, DType dtype, const std::byte* elements,
                               int64_t count) {
  if (!covers(kind, name)) return "";
  const trace::NotFinite found = look_at(dtype, elements, count);
  if (!found.any()) return "";
  if (!saved_ && began_so(kind, name)) meant_.emplace(kind, name);
  if (meant_.count({kind, name}) > 0) return "";
  return kind_text(kind) + ("'" + name + "' has " + (found.nan ? "a NaN" : "an infinity"));
}

}  // namespace piper::checkpoint
