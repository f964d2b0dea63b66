// Result types of softmax and of normalisations.
#include "compiler/ir/infer.h"
#include "compiler/ir/shapes.h"

namespace piper::ir::infer {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

}  // namespace

Result<Types> softmax(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want_dim(c.as<DimAttrs>().dim, c.x(0).shape.size()));
  return Types{c.x(0)};
}

Result<Types> softmax_backward(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want_dim(c.as<DimAttrs>().dim, c.x(0).shape.size()));
  PIPER_RETURN_IF_ERROR(c.want(1, c.x(0)));
  return Types{c.x(0)};
}

// Operands are (g?, x, mean?, rstd?, w?, b?) by kind.
Result<Types> row_norm(const Call& c) {
  bool rms =
      c.kind == OpKind::kRmsNorm || c.kind == OpKind::kRmsNormBackwardInput || c.kind == OpKind::kRmsNormBackwardWeight;
  bool forward = c.kind == OpKind::kLayerNorm || c.kind == OpKind::kRmsNorm;
  bool weight = c.kind == OpKind::kLayerNormBackwardWeight || c.kind == OpKind::kRmsNormBackwardWeight;
  size_t statistics = rms ? 1 : 2;
  size_t required = forward ? 1 : 2 + statistics;
  size_t may = forward ? statistics : weight ? 0 : 1;  // rms_norm has no bias
  PIPER_RETURN_IF_ERROR(c.require(required, may));
  size_t x_at = forward ? 0 : 1;
  PIPER_RETURN_IF_ERROR(c.want_float(x_at));
  const TensorType& x = c.x(x_at);
  int64_t axes = c.as<LayerNormAttrs>().axes;
  if (axes < 1 || axes > static_cast<int64_t>(x.shape.size())) return c.fail("more axes than the operand has");
  TensorType w{x.dtype, Shape(x.shape.end() - axes, x.shape.end())};
  const int64_t rows = elements_before(x.shape, x.shape.size() - static_cast<size_t>(axes));
  if (!forward) {
    PIPER_RETURN_IF_ERROR(c.want(0, x));
    for (size_t i = 0; i < statistics; ++i) PIPER_RETURN_IF_ERROR(c.want(2 + i, f32({rows})));
  }
  for (size_t i = required; i < c.operands.size(); ++i) PIPER_RETURN_IF_ERROR(c.want(i, w));
  if (forward && rms) return Types{x, f32({rows})};
  if (forward) return Types{x, f32({rows}), f32({rows})};
  if (!weight) return Types{x};
  if (rms) return Types{w};
  return Types{w, w};
}

Result<Types> channel_norm(const Call& c) {
  bool batch = c.kind == OpKind::kBatchNorm || c.kind == OpKind::kBatchNormBackwardInput ||
               c.kind == OpKind::kBatchNormBackwardWeight;
  bool forward = c.kind == OpKind::kBatchNorm || c.kind == OpKind::kGroupNorm;
  bool weight = c.kind == OpKind::kBatchNormBackwardWeight || c.kind == OpKind::kGroupNormBackwardWeight;
  PIPER_RETURN_IF_ERROR(forward ? c.require(1, batch ? 4 : 2) : c.require(4, weight ? 0 : 1));
  size_t x_at = forward ? 0 : 1;
  PIPER_RETURN_IF_ERROR(c.want_float(x_at));
  const TensorType& x = c.x(x_at);
  if (x.shape.size() < 2) return c.fail("wants [N, C, ..]");
  int64_t channels = x.shape[1];
  TensorType w{x.dtype, {channels}};
  TensorType statistic = f32({channels});
  if (!batch) {
    int64_t groups = c.as<GroupNormAttrs>().groups;
    if (groups < 1 || channels % groups) return c.fail("channels must be a multiple of groups");
    statistic.shape = {x.shape[0], groups};
  }
  if (forward) {
    for (size_t i = 1; i < c.operands.size(); ++i) PIPER_RETURN_IF_ERROR(c.want(i, w));
    return Types{x, statistic, statistic};
  }
  PIPER_RETURN_IF_ERROR(c.want(0, x));
  PIPER_RETURN_IF_ERROR(c.want(2, statistic));
  PIPER_RETURN_IF_ERROR(c.want(3, statistic));
  PIPER_RETURN_IF_ERROR(c.want(4, w));
  if (weight) return Types{w, w};
  return Types{x};
}

}  // namespace piper::ir::infer
