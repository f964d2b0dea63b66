// Type inference: sends each operator to its family.
#include "compiler/ir/infer.h"

namespace piper::ir {
namespace {

// Bounds that keep all later arithmetic on extents and attributes inside int64_t: text and model
// files may hold any number.
constexpr int64_t kMostExtent = int64_t{1} << 40;
constexpr int64_t kMostElements = int64_t{1} << 48;
constexpr int64_t kMostWindow = int64_t{1} << 22;  // strides, paddings, kernels

bool small_enough(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent > kMostExtent || (extent > 0 && elements > kMostElements / extent)) return false;
    elements *= extent > 0 ? extent : 1;
  }
  return true;
}

struct AttrBounds {
  bool ok = true;
  void operator()(std::string_view name, int64_t v) {
    if (name != "key" && name != "ignore_index") ok = ok && v >= -kMostExtent && v <= kMostExtent;
  }
  void operator()(std::string_view name, const std::vector<int64_t>& v) {
    if (name == "shape") ok = ok && small_enough(v);
    else
      for (int64_t entry : v) ok = ok && entry >= -kMostWindow && entry <= kMostWindow;
  }
  template <class T>
  void operator()(std::string_view, const T&) {}
};

Result<std::vector<TensorType>> by_family(const infer::Call& call) {
  switch (call.kind) {
    case OpKind::kReshape:
    case OpKind::kPermute:
    case OpKind::kExpand:
    case OpKind::kSlice:
    case OpKind::kDetach: return infer::views(call);
    case OpKind::kCast:
    case OpKind::kNeg:
    case OpKind::kAbs:
    case OpKind::kSign:
    case OpKind::kExp:
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kRsqrt:
    case OpKind::kReciprocal:
    case OpKind::kSin:
    case OpKind::kCos:
    case OpKind::kErf:
    case OpKind::kTanh:
    case OpKind::kSigmoid:
    case OpKind::kLogSigmoid:
    case OpKind::kSoftplus:
    case OpKind::kRelu:
    case OpKind::kLeakyRelu:
    case OpKind::kGelu:
    case OpKind::kSilu:
    case OpKind::kPowScalar:
    case OpKind::kClamp:
    case OpKind::kLogicalNot:
    case OpKind::kIsNan: return infer::unary(call);
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMaximum:
    case OpKind::kMinimum:
    case OpKind::kEq:
    case OpKind::kNe:
    case OpKind::kLt:
    case OpKind::kLe:
    case OpKind::kGt:
    case OpKind::kGe:
    case OpKind::kLogicalAnd:
    case OpKind::kLogicalOr:
    case OpKind::kWhere:
    case OpKind::kTanhBackward:
    case OpKind::kSigmoidBackward:
    case OpKind::kReluBackward:
    case OpKind::kLeakyReluBackward:
    case OpKind::kGeluBackward:
    case OpKind::kSiluBackward:
    case OpKind::kLogSigmoidBackward:
    case OpKind::kSoftplusBackward: return infer::binary(call);
    case OpKind::kSum:
    case OpKind::kMean:
    case OpKind::kAmax:
    case OpKind::kMaxDim:
    case OpKind::kCumsum:
    case OpKind::kTopk: return infer::reductions(call);
    case OpKind::kEmbedding:
    case OpKind::kGather:
    case OpKind::kScatter:
    case OpKind::kScatterAdd:
    case OpKind::kIndexSelect:
    case OpKind::kIndexAdd:
    case OpKind::kCat:
    case OpKind::kPad:
    case OpKind::kSliceBackward:
    case OpKind::kEmbeddingBackward: return infer::indexing(call);
    case OpKind::kMatmul:
    case OpKind::kLinear:
    case OpKind::kLinearBackwardInput:
    case OpKind::kLinearBackwardWeight: return infer::products(call);
    case OpKind::kConvolution:
    case OpKind::kConvolutionBackwardInput:
    case OpKind::kConvolutionBackwardWeight: return infer::convolutions(call);
    case OpKind::kExpertOrder:
    case OpKind::kTakeRows:
    case OpKind::kGroupedMatmul:
    case OpKind::kGroupedMatmulWeight:
    case OpKind::kGroupedExpand:
    case OpKind::kGroupedSum: return infer::experts(call);
    case OpKind::kSoftmax:
    case OpKind::kSoftmaxBackward:
    case OpKind::kLogSoftmax:
    case OpKind::kLogSoftmaxBackward:
    case OpKind::kLayerNorm:
    case OpKind::kLayerNormBackwardInput:
    case OpKind::kLayerNormBackwardWeight:
    case OpKind::kRmsNorm:
    case OpKind::kRmsNormBackwardInput:
    case OpKind::kRmsNormBackwardWeight: return infer::norms(call);
    case OpKind::kGroupNorm:
    case OpKind::kGroupNormBackwardInput:
    case OpKind::kGroupNormBackwardWeight:
    case OpKind::kBatchNorm:
    case OpKind::kBatchNormBackwardInput:
    case OpKind::kBatchNormBackwardWeight: return infer::channel_norms(call);
    case OpKind::kMaxPool2d:
    case OpKind::kMaxPool2dBackward:
    case OpKind::kAvgPool2d:
    case OpKind::kAvgPool2dBackward: return infer::pooling(call);
    case OpKind::kRotary:
    case OpKind::kRotaryBackward: return infer::rotary(call);
    case OpKind::kSdpa:
    case OpKind::kSdpaBackward: return infer::attention(call);
    case OpKind::kCrossEntropySum:
    case OpKind::kCrossEntropyBackward:
    case OpKind::kCrossEntropyCount:
    case OpKind::kCrossEntropyLoss:
    case OpKind::kNllLoss:
    case OpKind::kNllSum:
    case OpKind::kNllBackward:
    case OpKind::kMseLoss: return infer::losses(call);
    case OpKind::kDropout:
    case OpKind::kStepSum:
    case OpKind::kAllToAll:
    case OpKind::kAccumulateGrad:
    case OpKind::kFill:
    case OpKind::kCopy: return infer::step_values(call);
  }
  return call.fail("unknown operator");
}

}  // namespace

Result<std::vector<TensorType>> infer_types(OpKind kind, const Attrs& attrs,
                                            const std::vector<const TensorType*>& operands) {
  infer::Call call{kind, attrs, operands};
  if (attrs.index() != default_attrs(kind).index()) return call.fail("attributes of another operator");
  AttrBounds bounds;
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, bounds); }, attrs);
  if (!bounds.ok) return call.fail("an attribute is out of range");
  Result<std::vector<TensorType>> results = by_family(call);
  if (!results.ok()) return results;
  for (const TensorType& type : *results)
    if (!small_enough(type.shape)) return call.fail("too many elements");
  return results;
}

}  // namespace piper::ir
