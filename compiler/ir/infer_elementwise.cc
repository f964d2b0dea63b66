// Result types of element-wise operators, their backward, and reductions.
#include "compiler/ir/infer.h"

#include <algorithm>

namespace piper::ir::infer {

namespace {

Status want_number(const Call& c) {
  return c.x(0).dtype == DType::kBool ? c.fail("operand 0 must be a number") : Status();
}

// Two operands of one dtype: the type of the first, of the shape of both.
Result<TensorType> broadcast(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  if (c.x(1).dtype != c.x(0).dtype) return c.fail("dtypes differ");
  std::optional<Shape> shape = broadcast_shape(c.x(0).shape, c.x(1).shape);
  if (!shape) return c.fail("shapes cannot be broadcast");
  return TensorType{c.x(0).dtype, std::move(*shape)};
}

}  // namespace

Result<Types> same_type(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  return Types{c.x(0)};
}

Result<Types> float_unary(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  return Types{c.x(0)};
}

Result<Types> number_unary(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(want_number(c));
  return Types{c.x(0)};
}

Result<Types> cast(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  return Types{{c.as<CastAttrs>().to, c.x(0).shape}};
}

Result<Types> logical_not(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kBool));
  return Types{c.x(0)};
}

Result<Types> isnan(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  return Types{{DType::kBool, c.x(0).shape}};
}

Result<Types> gelu(const Call& c) {
  PIPER_ASSIGN(Types y, float_unary(c));
  const std::string& form = c.as<GeluAttrs>().approximate;
  if (form != "none" && form != "tanh") return c.fail("approximate must be none or tanh");
  return y;
}

Result<Types> comparison(const Call& c) {
  PIPER_ASSIGN(const TensorType y, broadcast(c));
  return Types{{DType::kBool, y.shape}};
}

Result<Types> logical(const Call& c) {
  PIPER_ASSIGN(const TensorType y, broadcast(c));
  PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kBool));
  return Types{y};
}

Result<Types> arithmetic(const Call& c) {
  PIPER_ASSIGN(const TensorType y, broadcast(c));
  if (y.dtype == DType::kBool) return c.fail("operands must be numbers");
  return Types{y};
}

Result<Types> float_binary(const Call& c) {
  PIPER_ASSIGN(const TensorType y, broadcast(c));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  return Types{y};
}

Result<Types> where(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(3));
  PIPER_RETURN_IF_ERROR(c.want_dtype(0, DType::kBool));
  PIPER_RETURN_IF_ERROR(c.want_dtype(2, c.x(1).dtype));
  const std::optional<Shape> branches = broadcast_shape(c.x(1).shape, c.x(2).shape);
  const std::optional<Shape> shape = branches ? broadcast_shape(c.x(0).shape, *branches) : std::nullopt;
  if (!shape) return c.fail("shapes cannot be broadcast");
  return Types{{c.x(1).dtype, *shape}};
}

// Gradient and saved value have one type.
Result<Types> element_backward(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want(1, c.x(0)));
  return Types{c.x(0)};
}

Result<Types> reduce(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
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

Result<Types> cumsum(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_dim(c.as<DimAttrs>().dim, c.x(0).shape.size()));
  PIPER_RETURN_IF_ERROR(want_number(c));
  return Types{c.x(0)};
}

Result<Types> choose(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  TensorType y = c.x(0);
  const auto& a = c.as<TopkAttrs>();
  PIPER_RETURN_IF_ERROR(c.want_dim(a.dim, y.shape.size()));
  int64_t& extent = y.shape[static_cast<size_t>(a.dim)];
  if (a.k < 1 || a.k > extent) return c.fail("k must be from 1 to the axis' extent");
  if (c.kind == OpKind::kMaxDim && a.k != 1) return c.fail("k must be 1");
  extent = a.k;
  return Types{y, {DType::kI64, y.shape}};
}

}  // namespace piper::ir::infer
