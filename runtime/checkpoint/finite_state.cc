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

}  // namespace

FiniteState::FiniteState(const plan::Manifest& manifest) {
  for (const plan::TensorInfo& tensor : manifest.tensors)
    if (tensor.trained) trained_.insert(tensor.name);
}

bool FiniteState::covers(StateKind kind, const std::string& name) const {
  return kind == StateKind::kFirstMoment || kind == StateKind::kSecondMoment ||
         (kind == StateKind::kParameter && trained_.count(name) > 0);
}

std::string not_finite(StateKind kind, const std::string& name, DType dtype, const std::byte* elements, int64_t count) {
  plan::Operand dense;
  dense.dtype = dtype;
  dense.shape = {count};
  dense.strides = {1};
  const trace::NotFinite found = trace::find_not_finite(dense, elements);
  if (!found.any()) return "";
  return kind_text(kind) + ("'" + name + "' has " + (found.nan ? "a NaN" : "an infinity"));
}

}  // namespace piper::checkpoint
