// Result types of view operators.
#include "compiler/ir/infer.h"

namespace piper::ir::infer {

Result<Types> reshape(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  const Shape& shape = c.as<ReshapeAttrs>().shape;
  for (int64_t extent : shape)
    if (extent < 0) return c.fail("negative extent");
  TensorType y{c.x(0).dtype, shape};
  if (y.elements() != c.x(0).elements()) return c.fail("the number of elements differs");
  return Types{y};
}

Result<Types> permute(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  const Shape& dims = c.as<PermuteAttrs>().dims;
  const Shape& from = c.x(0).shape;
  if (dims.size() != from.size()) return c.fail("one entry per axis expected");
  std::vector<bool> seen(dims.size(), false);
  TensorType y{c.x(0).dtype, {}};
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= static_cast<int64_t>(from.size()) || seen[static_cast<size_t>(dim)])
      return c.fail("dims are no permutation");
    seen[static_cast<size_t>(dim)] = true;
    y.shape.push_back(from[static_cast<size_t>(dim)]);
  }
  return Types{y};
}

Result<Types> expand(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  const Shape& shape = c.as<ExpandAttrs>().shape;
  const Shape& from = c.x(0).shape;
  if (shape.size() < from.size()) return c.fail("fewer axes than the operand has");
  size_t lead = shape.size() - from.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) return c.fail("negative extent");
    if (i >= lead && from[i - lead] != shape[i] && from[i - lead] != 1)
      return c.fail("axis " + std::to_string(i) + " cannot be broadcast");
  }
  return Types{{c.x(0).dtype, shape}};
}

Result<Types> slice(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(1));
  const auto& a = c.as<SliceAttrs>();
  TensorType y = c.x(0);
  PIPER_RETURN_IF_ERROR(c.want_dim(a.dim, y.shape.size()));
  int64_t& extent = y.shape[static_cast<size_t>(a.dim)];
  if (a.step < 1) return c.fail("step must be positive");
  if (a.start < 0 || a.end < a.start || a.end > extent) return c.fail("bounds outside the axis");
  extent = (a.end - a.start + a.step - 1) / a.step;
  return Types{y};
}

}  // namespace piper::ir::infer
