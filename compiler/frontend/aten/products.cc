// ATen calls that multiply matrices.
#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/einsum.h"

namespace piper::frontend::aten {
namespace {

// torch.matmul for any ranks: a vector gets an axis of extent 1 that the result loses again.
ValueId product(Call& c, ValueId a, ValueId b) {
  const bool row = c.rank(a) == 1, column = c.rank(b) == 1;
  if (c.rank(a) == 0 || c.rank(b) == 0) {
    c.fail("a matrix product of a scalar");
    return a;
  }
  if (row) a = c.unsqueeze(a, 0);
  if (column) b = c.unsqueeze(b, 1);
  ValueId y = c.op(OpKind::kMatmul, {a, b});
  if (column) y = c.squeeze(y, -1);
  if (row) y = c.squeeze(y, column ? -1 : -2);
  return y;
}

}  // namespace

Item linear(Call& c) {
  const ValueId x = c.tensor("input"), w = c.tensor("weight"), b = c.tensor_or_none("bias");
  if (c.rank(w) == 2 && c.rank(x) >= 1 && (!b.valid() || c.rank(b) == 1)) return made(c.op(OpKind::kLinear, {x, w, b}));
  ValueId y = product(c, x, c.rank(w) == 2 ? c.transpose(w, 0, 1) : w);
  if (b.valid()) y = c.binary(OpKind::kAdd, y, b);
  return made(y);
}

// beta * self + alpha * mat1 @ mat2
Item addmm(Call& c) {
  ValueId bias = c.tensor("self"), a = c.tensor("mat1"), b = c.tensor("mat2");
  const double beta = c.real("beta"), alpha = c.real("alpha");
  if (beta == 1 && alpha == 1 && c.rank(bias) == 1 && c.rank(a) == 2 && c.rank(b) == 2 &&
      c.extent(bias, 0) == c.extent(b, 1))
    return made(c.op(OpKind::kLinear, {a, c.transpose(b, 0, 1), bias}));
  ValueId y = product(c, a, b);
  if (alpha != 1) y = c.binary(OpKind::kMul, y, alpha);
  if (beta == 0) return made(y);
  if (beta != 1) bias = c.binary(OpKind::kMul, bias, beta);
  return made(c.binary(OpKind::kAdd, bias, y));
}

// The same, of the sum of the products of a batch.
Item addbmm(Call& c) {
  ValueId bias = c.tensor("self"), y = product(c, c.tensor("batch1"), c.tensor("batch2"));
  const double beta = c.real("beta"), alpha = c.real("alpha");
  if (c.rank(y) != 3) return c.fail("addbmm of other than batches of matrices");
  y = c.sum(y, {0}, false);
  if (alpha != 1) y = c.binary(OpKind::kMul, y, alpha);
  if (beta == 0) return made(y);
  if (beta != 1) bias = c.binary(OpKind::kMul, bias, beta);
  return made(c.binary(OpKind::kAdd, bias, y));
}

Item matmul(Call& c) { return made(product(c, c.tensor("self"), c.tensor("other"))); }

// y_o = sum over i, j of a_i w_oij b_j, + bias_o
Item bilinear(Call& c) {
  const ValueId a = c.tensor("input1"), b = c.tensor("input2"), w = c.tensor("weight");
  if (c.rank(w) != 3 || c.rank(a) < 1 || c.rank(b) != c.rank(a)) return c.fail("bilinear of these axes");
  const int64_t out = c.extent(w, 0), left = c.extent(w, 1), right = c.extent(w, 2);
  Extents shape = c.shape(a);
  shape.back() = out;
  const ValueId rows = c.reshape(c.transpose(w, 1, 2), {c.product(out, right), left});
  ValueId y = c.op(OpKind::kLinear, {a, rows, ValueId()});
  std::vector<int64_t> parted = shape;
  parted.push_back(right);
  y = c.op(OpKind::kMatmul, {c.reshape(y, std::move(parted)), c.unsqueeze(b, -1)});
  y = c.squeeze(y, -1);
  const ValueId bias = c.tensor_or_none("bias");
  return made(bias.valid() ? c.binary(OpKind::kAdd, y, bias) : y);
}

Item outer(Call& c) {
  const ValueId a = c.tensor("self"), b = c.tensor("vec2");
  return made(c.binary(OpKind::kMul, c.unsqueeze(a, 1), c.unsqueeze(b, 0)));
}

Item einsum(Call& c) {
  std::vector<ValueId> operands = c.tensors("tensors");
  std::vector<Item> items;
  std::vector<const Item*> pointers;
  for (ValueId v : operands) items.push_back(made(v));
  for (const Item& x : items) pointers.push_back(&x);
  const DType type = promoted(c.graph(), pointers);
  for (ValueId& v : operands) v = c.cast(v, type);
  const std::string equation = c.text("equation");
  std::vector<std::vector<int64_t>> shapes;
  for (ValueId v : operands) shapes.push_back(c.shape(v));
  const Status fits = check_einsum(equation, shapes);
  if (!fits.ok()) return c.refuse(fits.error().code, fits.error().message);
  return made(frontend::einsum(c.builder(), equation, operands));
}

}  // namespace piper::frontend::aten
