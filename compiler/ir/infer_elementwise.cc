// Result types of element-wise operators, their backward, and reductions.
#include "compiler/ir/infer.h"

#include <algorithm>

namespace piper::ir::infer {

Result<Types> unary(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  TensorType y = c.x(0);
  switch (c.kind) {
    case OpKind::kCast: y.dtype = c.as<CastAttrs>().to; break;
    case OpKind::kLogicalNot: PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kBool)); break;
    case OpKind::kIsNan:
      PIPER_RETURN_IF_ERROR(c.want_float(0));
      y.dtype = DType::kBool;
      break;
    case OpKind::kNeg:
    case OpKind::kAbs:
    case OpKind::kSign:
    case OpKind::kRelu:
    case OpKind::kClamp:
    case OpKind::kPowScalar:
      if (y.dtype == DType::kBool) return c.fail("operand 0 must be a number");
      break;
    default: PIPER_RETURN_IF_ERROR(c.want_float(0)); break;
  }
  if (c.kind == OpKind::kGelu) {
    const std::string& form = c.as<GeluAttrs>().approximate;
    if (form != "none" && form != "tanh") return c.fail("approximate must be none or tanh");
  }
  return Types{y};
}

Result<Types> binary(const Call& c) {
  if (c.kind == OpKind::kWhere) {
    PIPER_RETURN_IF_ERROR(c.require(3));
    PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kBool));
    PIPER_RETURN_IF_ERROR(c.want_dtype(2, c.x(1).dtype));
    const std::optional<Shape> branches = broadcast_shape(c.x(1).shape, c.x(2).shape);
    const std::optional<Shape> shape = branches ? broadcast_shape(c.x(0).shape, *branches) : std::nullopt;
    if (!shape) return c.fail("shapes cannot be broadcast");
    return Types{{c.x(1).dtype, *shape}};
  }
  PIPER_RETURN_IF_ERROR(c.require(2));
  TensorType y{c.x(0).dtype, {}};
  if (c.x(1).dtype != y.dtype) return c.fail("dtypes differ");
  switch (c.kind) {
    case OpKind::kEq:
    case OpKind::kNe:
    case OpKind::kLt:
    case OpKind::kLe:
    case OpKind::kGt:
    case OpKind::kGe: y.dtype = DType::kBool; break;
    case OpKind::kLogicalAnd:
    case OpKind::kLogicalOr: PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kBool)); break;
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMaximum:
    case OpKind::kMinimum:
      if (y.dtype == DType::kBool) return c.fail("operands must be numbers");
      break;
    default:  // element-wise backward: gradient and saved value have one type
      PIPER_RETURN_IF_ERROR(c.want_float(0));
      PIPER_RETURN_IF_ERROR(c.want(1, c.x(0)));
      break;
  }
  std::optional<Shape> shape = broadcast_shape(c.x(0).shape, c.x(1).shape);
  if (!shape) return c.fail("shapes cannot be broadcast");
  y.shape = std::move(*shape);
  return Types{y};
}

namespace {

Result<Types> reduce(const Call& c) {
  const auto& a = c.as<ReduceAttrs>();
  const TensorType& x = c.x(0);
  if (x.dtype == DType::kBool && c.kind != OpKind::kAmax) return c.fail("operand 0 must be a number");
  if (c.kind == OpKind::kMean) PIPER_RETURN_IF_ERROR(c.want_float(0));
  TensorType y{x.dtype, {}};
  size_t next = 0;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    bool reduced = next < a.dims.size() && a.dims[next] == static_cast<int64_t>(i);
    if (reduced) {
      ++next;
      if (c.kind == OpKind::kAmax && x.shape[i] == 0) return c.fail("amax of nothing");
      if (a.keepdim) y.shape.push_back(1);
    } else {
      y.shape.push_back(x.shape[i]);
    }
  }
  if (next != a.dims.size()) return c.fail("dims must be axes of the operand, sorted and distinct");
  return Types{y};
}

}  // namespace

Result<Types> reductions(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  TensorType y = c.x(0);
  if (c.kind == OpKind::kCumsum) {
    PIPER_RETURN_IF_ERROR(c.want_dim(c.as<DimAttrs>().dim, y.shape.size()));
    if (y.dtype == DType::kBool) return c.fail("operand 0 must be a number");
    return Types{y};
  }
  if (c.kind != OpKind::kMaxDim && c.kind != OpKind::kTopk) return reduce(c);
  const auto& a = c.as<TopkAttrs>();
  PIPER_RETURN_IF_ERROR(c.want_dim(a.dim, y.shape.size()));
  int64_t& extent = y.shape[static_cast<size_t>(a.dim)];
  if (a.k < 1 || a.k > extent) return c.fail("k must be from 1 to the axis' extent");
  if (c.kind == OpKind::kMaxDim && a.k != 1) return c.fail("k must be 1");
  extent = a.k;
  return Types{y, {DType::kI64, y.shape}};
}

}  // namespace piper::ir::infer
