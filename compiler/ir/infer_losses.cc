// Result types of losses and of step-wide values.
#include <algorithm>

#include "compiler/ir/infer.h"
#include "schemas/plan/head_blocks.h"

namespace piper::ir::infer {
namespace {

// logits [N, C] or [N, C, d..] (at `at`), target i64 [N] or [N, d..] (next), class weight (at `weight`).
Status want_classes(const Call& c, size_t at, size_t weight) {
  PIPER_RETURN_IF_ERROR(c.want_float(at));
  PIPER_RETURN_IF_ERROR(c.want_dtype(at + 1, DType::kI64));
  Shape rows = c.x(at).shape;
  if (rows.size() < 2) return c.fail("logits want at least two axes, the second is the classes");
  int64_t classes = rows[1];
  rows.erase(rows.begin() + 1);
  PIPER_RETURN_IF_ERROR(c.want(at + 1, {DType::kI64, rows}));
  return c.want(weight, {c.x(at).dtype, {classes}});
}

// Rows of halves are added up in f32.
DType summed(DType logits) { return is_half(logits) ? DType::kF32 : logits; }

Result<Types> reduced(const Call& c, const std::string& reduction, TensorType unreduced) {
  if (reduction == "none") return Types{std::move(unreduced)};
  if (reduction != "mean" && reduction != "sum") return c.fail("reduction must be mean, sum or none");
  return Types{{unreduced.dtype, {}}};
}

// For a part of `whole` classes: neither weights of classes nor smoothing, which take all.
Status want_part(const Call& c, size_t weight, size_t place) {
  const auto& a = c.as<CrossEntropyAttrs>();
  PIPER_RETURN_IF_ERROR(c.want(place, {DType::kI64, {1}}));
  if ((c.optional(place) != nullptr) != (a.whole > 0)) return c.fail("a place and the number of classes go together");
  if (a.whole > 0 && (c.optional(weight) != nullptr || a.label_smoothing != 0))
    return c.fail("a part of the classes has neither weights nor smoothing");
  return {};
}

}  // namespace

Result<Types> class_sum(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2, c.kind == OpKind::kNllSum ? 1 : 3));
  PIPER_RETURN_IF_ERROR(want_classes(c, 0, 2));
  if (c.kind == OpKind::kNllSum) return Types{{c.x(0).dtype, {}}};
  PIPER_RETURN_IF_ERROR(want_part(c, 2, 4));
  const DType sum = summed(c.x(0).dtype);
  const TensorType* const stats = c.optional(3);
  if ((stats != nullptr) != (c.optional(4) != nullptr))
    return c.fail("a part of the classes wants the rows' statistics");
  if (stats != nullptr &&
      (stats->dtype != sum || stats->shape.size() != 3 || stats->shape[2] != 2 || stats->shape[0] != c.x(1).elements()))
    return c.fail("operand 3 must be the statistics of the rows at each place");
  return Types{{sum, {}}, {stats != nullptr ? sum : DType::kF32, {c.x(1).elements()}}};
}

Result<Types> cross_entropy_backward(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(4, 2));
  PIPER_RETURN_IF_ERROR(want_classes(c, 1, 4));
  PIPER_RETURN_IF_ERROR(want_part(c, 4, 5));
  const DType sum = summed(c.x(1).dtype);
  PIPER_RETURN_IF_ERROR(c.want(0, {sum, {}}));
  PIPER_RETURN_IF_ERROR(c.want(3, {c.optional(5) != nullptr ? sum : DType::kF32, {c.x(2).elements()}}));
  return Types{c.x(1)};
}

namespace {
// x (at `at`), w, target, then what `after` counts, bias, class weight; the type of the work memory.
Result<TensorType> head_work(const Call& c, size_t at, size_t after) {
  const auto& a = c.as<LinearCrossEntropyAttrs>();
  const size_t bias = at + 3 + after;
  PIPER_RETURN_IF_ERROR(c.want_float(at));
  const TensorType &x = c.x(at), &w = c.x(at + 1);
  if (x.shape.size() < 2 || w.shape.size() != 2 || w.dtype != x.dtype || w.shape[1] != x.shape.back())
    return c.fail("wants x [.., I] and weight [V, I] of one type");
  const int64_t rows = x.elements() / std::max<int64_t>(1, x.shape.back());
  PIPER_RETURN_IF_ERROR(c.want(at + 2, {DType::kI64, {rows}}));
  PIPER_RETURN_IF_ERROR(c.want(bias, {x.dtype, {w.shape[0]}}));
  PIPER_RETURN_IF_ERROR(c.want(bias + 1, {a.logits, {w.shape[0]}}));
  if (!is_floating(a.logits) || a.blocks < 1) return c.fail("wants logits of a floating type, and blocks");
  const plan::Kernel kernel = c.kind == OpKind::kLinearCrossEntropyBackwardWeight
                                  ? plan::Kernel::kLinearCrossEntropyBackwardWeight
                                  : plan::Kernel::kLinearCrossEntropy;
  return TensorType{DType::kF32, {plan::head_work_elements(kernel, rows, w.shape[0], a.blocks, x.dtype, a.logits)}};
}
}  // namespace

Result<Types> linear_cross_entropy(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(3, 2));
  PIPER_ASSIGN(TensorType work, head_work(c, 0, 0));
  const DType sum = summed(c.as<LinearCrossEntropyAttrs>().logits);
  return Types{{sum, {}}, {DType::kF32, c.x(2).shape}, std::move(work)};
}

Result<Types> linear_cross_entropy_backward(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(5, 2));
  PIPER_ASSIGN(TensorType work, head_work(c, 1, 1));
  PIPER_RETURN_IF_ERROR(c.want(0, {summed(c.as<LinearCrossEntropyAttrs>().logits), {}}));
  PIPER_RETURN_IF_ERROR(c.want(4, {DType::kF32, c.x(3).shape}));
  if (c.kind == OpKind::kLinearCrossEntropyBackwardInput) return Types{c.x(1), std::move(work)};
  Types types{c.x(2), std::move(work)};
  if (const TensorType* const bias = c.optional(5)) types.push_back(*bias);
  return types;
}

Result<Types> row_lse(const Call& c) {
  const auto& a = c.as<RowLseAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(3));
  PIPER_RETURN_IF_ERROR(want_classes(c, 0, 3));
  PIPER_RETURN_IF_ERROR(c.want(2, {DType::kI64, {1}}));
  if (a.whole < 1 || a.places < 1 || c.x(0).shape[1] * a.places < a.whole) return c.fail("parts of too few classes");
  return Types{{summed(c.x(0).dtype), {c.x(1).elements(), a.places, 2}}};
}

Result<Types> cross_entropy_count(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1, 1));
  PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kI64));
  PIPER_RETURN_IF_ERROR(c.want_float(1));
  if (c.optional(1) && c.optional(1)->shape.size() != 1) return c.fail("class weight wants one axis");
  return Types{{DType::kF32, {}}};
}

Result<Types> class_loss(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2, 1));
  PIPER_RETURN_IF_ERROR(want_classes(c, 0, 2));
  return reduced(c, c.as<CrossEntropyLossAttrs>().reduction, {c.x(0).dtype, c.x(1).shape});
}

Result<Types> nll_backward(const Call& c) {
  const Shape& shape = c.as<NllBackwardAttrs>().shape;
  PIPER_RETURN_IF_ERROR(c.require(2, 1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want(0, {c.x(0).dtype, {}}));
  Shape rows = shape;
  if (rows.size() < 2) return c.fail("shape wants at least two axes, the second is the classes");
  rows.erase(rows.begin() + 1);
  PIPER_RETURN_IF_ERROR(c.want(1, {DType::kI64, rows}));
  PIPER_RETURN_IF_ERROR(c.want(2, {c.x(0).dtype, {shape[1]}}));
  return Types{{c.x(0).dtype, shape}};
}

Result<Types> mse_loss(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want(1, c.x(0)));
  return reduced(c, c.as<ReductionAttrs>().reduction, c.x(0));
}

Result<Types> dropout(const Call& c) {
  const auto& a = c.as<DropoutAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(3, 1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want(1, {DType::kI64, {2}}));
  PIPER_RETURN_IF_ERROR(c.want(2, {DType::kI64, {1}}));
  if (!(a.p >= 0 && a.p <= 1)) return c.fail("p must be from 0 to 1");
  // All three are 1 until the batch axis is known.
  if (a.outer < 1 || a.batch < 1 || a.inner < 0) return c.fail("outer, batch and inner must be positive");
  bool laid_out = a.outer != 1 || a.batch != 1 || a.inner != 1;
  int64_t elements = c.x(0).elements();
  bool whole = elements % a.outer == 0 && elements / a.outer % a.batch == 0 && elements / a.outer / a.batch == a.inner;
  if (laid_out && !whole) return c.fail("outer x batch x inner is not the number of elements");
  const bool of_part = c.operands.size() > 3;
  if (of_part) PIPER_RETURN_IF_ERROR(c.want(3, {DType::kI64, {1}}));
  if (of_part != (a.places > 1) || of_part != (a.row > 0) || (of_part && a.outer * a.inner % a.row != 0))
    return c.fail("a place wants the number of places, and a row of a part");
  return Types{c.x(0)};
}

Result<Types> step_sum(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  return Types{c.x(0)};
}

Result<Types> all_to_all(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1, 2));
  if (c.x(0).shape.empty()) return c.fail("wants an axis of parts");
  if (c.operands.size() > 1) {
    if (c.operands.size() != 3 || !c.optional(1) || !c.optional(2)) return c.fail("wants the counts of both ways");
    if (c.x(0).shape.size() < 2) return c.fail("wants rows in its parts");
    for (size_t i : {1, 2}) PIPER_RETURN_IF_ERROR(c.want(i, {DType::kI64, {c.x(0).shape[0]}}));
  }
  return Types{c.x(0)};
}

Result<Types> all_gather(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1, 1));
  if (c.optional(1)) PIPER_RETURN_IF_ERROR(c.want(1, {DType::kI64, {1}}));
  TensorType whole = c.x(0);
  whole.shape.insert(whole.shape.begin(), c.as<PartsAttrs>().parts);
  return Types{whole};
}

Result<Types> reduce_scatter(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  TensorType part = c.x(0);
  if (part.shape.empty() || part.shape[0] != c.as<PartsAttrs>().parts) return c.fail("wants an axis of parts");
  part.shape.erase(part.shape.begin());
  return Types{part};
}

Result<Types> own_part(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want(1, {DType::kI64, {1}}));
  TensorType part = c.x(0);
  if (part.shape.empty() || part.shape[0] != c.as<PartsAttrs>().parts) return c.fail("wants an axis of parts");
  part.shape.erase(part.shape.begin());
  return Types{part};
}

Result<Types> accumulate_grad(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  return Types{};
}

Result<Types> fill(const Call& c) {
  const auto& a = c.as<FillAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(0));
  for (int64_t extent : a.shape)
    if (extent < 0) return c.fail("negative extent");
  return Types{{a.to, a.shape}};
}

}  // namespace piper::ir::infer
