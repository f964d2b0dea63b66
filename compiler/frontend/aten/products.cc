// ATen calls that multiply matrices or convolve.
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

Item convolve(Call& c, const std::vector<int64_t>& padding) {
  const ValueId w = c.tensor("weight");
  ValueId x = c.tensor("input");
  const size_t n = c.shape(w).size() - 2;
  if (c.shape(w).size() < 3 || n > 2) return c.fail("convolutions are supported over one or two axes");
  const bool lone = c.shape(x).size() == n + 1;  // one sample without a batch axis
  if (lone) x = c.unsqueeze(x, 0);
  ir::ConvolutionAttrs attrs;
  attrs.stride = c.ints("stride", n);
  attrs.dilation = c.ints("dilation", n);
  attrs.padding = padding;
  attrs.groups = c.integer("groups");
  const ValueId y = c.op(OpKind::kConvolution, {x, w, c.tensor_or_none("bias")}, std::move(attrs));
  return made(lone ? c.squeeze(y, 0) : y);
}

size_t spatial_axes(Call& c) { return std::max<size_t>(c.shape(c.tensor("weight")).size(), 2) - 2; }

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

Item matmul(Call& c) { return made(product(c, c.tensor("self"), c.tensor("other"))); }

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

Item convolution(Call& c) { return convolve(c, c.ints("padding", spatial_axes(c))); }

Item convolution_worded(Call& c) {
  const size_t n = spatial_axes(c);
  const std::vector<int64_t> dilation = c.ints("dilation", n);
  std::vector<int64_t> padding(n, 0);
  if (c.text("padding") == "same") {
    for (size_t i = 0; i < n; ++i) {
      const int64_t total = dilation[i] * (c.extent(c.tensor("weight"), static_cast<int64_t>(i) + 2) - 1);
      if (total % 2 != 0)
        return c.fail("padding 'same' with an even kernel is not supported; pad the input in the model");
      padding[i] = total / 2;
    }
  } else if (c.text("padding") != "valid") {
    return c.fail("padding '" + c.text("padding") + "'");
  }
  return convolve(c, padding);
}

Item convolution_general(Call& c) {
  if (c.flag("transposed")) return conv_transpose(c);
  return convolve(c, c.ints("padding", spatial_axes(c)));
}

}  // namespace piper::frontend::aten
