// Compares a constant mask with the two patterns, element by element.
#include "compiler/frontend/fold/recognise_mask.h"

#include <optional>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend {
namespace {

struct Element {
  bool known = true, attends = false;
};
template <class T>
Element element(DType dtype, T v) {
  if (dtype == DType::kBool) return {true, v != 0};
  if (v == 0) return {true, true};
  return {never_attends(static_cast<double>(v)), false};
}

}  // namespace

MaskPattern recognise_mask(const ConstantTensor& mask, bool causal, int64_t queries, int64_t keys) {
  if (const std::optional<ConstantTensor> part = repeated_part(mask))
    return recognise_mask(*part, causal, queries, keys);
  if (!mask.is_of_bytes()) return MaskPattern::kOther;
  // Read as [.., S, T]; extents of 1 are broadcast.
  eval::Shape shape = mask.type.shape;
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  eval::Shape full = shape;
  size_t rank = full.size();
  full[rank - 2] = queries;
  full[rank - 1] = keys;
  bool all = true, lower = true, known = true;
  bool typed = eval::with_type(mask.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = eval::elements<T>(mask);
    eval::for_each<1>(full, {ir::broadcast_strides(shape, full)}, [&](int64_t i, const auto& at) {
      int64_t key = i % keys, query = i / keys % queries;
      Element e = element(mask.type.dtype, data[at[0]]);
      known = known && e.known;
      bool attends = e.attends && !(causal && key > query);
      all = all && attends;
      lower = lower && attends == (key <= query);
    });
  });
  if (!typed || !known) return MaskPattern::kOther;
  if (all) return MaskPattern::kFull;
  return lower ? MaskPattern::kCausal : MaskPattern::kOther;
}

}  // namespace piper::frontend
