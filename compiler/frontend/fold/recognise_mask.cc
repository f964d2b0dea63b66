// Compares a constant mask with the two patterns, element by element.
#include "compiler/frontend/fold/recognise_mask.h"

#include <optional>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend {
namespace {

// exp of a score lowered by this much is 0 in every float format, whatever the score.
constexpr double kNeverAttends = -1e9;

struct Element {
  bool known = true, attends = false;
};
template <class T>
Element element(DType dtype, T v) {
  if (dtype == DType::kBool) return {true, v != 0};
  if (v == 0) return {true, true};
  return {static_cast<double>(v) <= kNeverAttends, false};
}

// Of a mask whose form says it; nullopt: its elements have to be read.
std::optional<MaskPattern> pattern_of_form(const ConstantTensor& mask, bool causal, int64_t queries, int64_t keys) {
  const Form& form = mask.form();
  const size_t rank = mask.type.shape.size();
  if (form == nullptr || rank < 2) return std::nullopt;
  // Where it attends.
  Form attends = form;
  if (form->is_real()) {
    const auto says = [](const Form& number, bool attends_there) {
      if (number->kind != FormNode::Kind::kReal) return false;
      return attends_there ? number->real == 0 : number->real <= kNeverAttends;
    };
    const bool selects = form->kind == FormNode::Kind::kSelect;
    if (says(form, true)) attends = form::number(1);
    else if (selects && says(form->operands[1], true) && says(form->operands[2], false)) attends = form->operands[0];
    else if (selects && says(form->operands[2], true) && says(form->operands[1], false))
      attends = form::negation(form->operands[0]);
    else return std::nullopt;
  }
  const auto& shape = mask.type.shape;
  if (shape[rank - 2] == queries && shape[rank - 1] == keys) {
    const Form lower =
        form::not_negative(form::sum(0, {{1, form::axis(rank - 2, queries)}, {-1, form::axis(rank - 1, keys)}}));
    if (causal) attends = form::all({attends, lower});
    if (form::equal(attends, lower)) return MaskPattern::kCausal;
  }
  if (attends->is_number() && attends->number == 1) return causal ? MaskPattern::kCausal : MaskPattern::kFull;
  return std::nullopt;
}

}  // namespace

MaskPattern recognise_mask(const ConstantTensor& mask, bool causal, int64_t queries, int64_t keys) {
  if (const std::optional<MaskPattern> pattern = pattern_of_form(mask, causal, queries, keys)) return *pattern;
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
