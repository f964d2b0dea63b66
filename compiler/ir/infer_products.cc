// Result types of matrix products, convolutions, rotary embeddings, attention and pooling.
#include "compiler/ir/infer.h"
#include "schemas/forms/attends.h"

namespace piper::ir::infer {
namespace {

struct ConvolutionShape {
  const Shape &stride, &padding, &dilation;
  int64_t groups;
};

// Checks x and w against the attributes; y gets the result shape, "" where they fit.
std::string convolve(const Shape& x, const Shape& w, const ConvolutionShape& a, Shape& y) {
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size())
    return "wants x [N, C, ..] and weight of one spatial axis, two or three";
  size_t n = x.size() - 2;
  if (a.stride.size() != n || a.padding.size() != n || a.dilation.size() != n)
    return "stride, padding and dilation want one entry per spatial axis";
  if (a.groups < 1 || x[1] % a.groups || w[0] % a.groups || w[1] != x[1] / a.groups)
    return "channels and groups do not fit";
  y = {x[0], w[0]};
  for (size_t i = 0; i < n; ++i) {
    if (a.stride[i] < 1 || a.dilation[i] < 1 || a.padding[i] < 0) return "stride and dilation must be positive";
    int64_t room = x[i + 2] + 2 * a.padding[i] - a.dilation[i] * (w[i + 2] - 1) - 1;
    if (room < 0) return "the kernel is larger than the padded input";
    y.push_back(room / a.stride[i] + 1);
  }
  return "";
}

// Extents of a pooled [N, C, H, W] (PyTorch's pooling_output_shape).
template <class A>
std::string pooled(const Shape& x, const A& a, bool dilated, Shape& y) {
  if (x.size() != 4) return "wants [N, C, H, W]";
  if (a.kernel.size() != 2 || a.stride.size() != 2 || a.padding.size() != 2 || (dilated && a.dilation.size() != 2))
    return "kernel, stride, padding and dilation want two entries";
  y = {x[0], x[1]};
  for (size_t i = 0; i < 2; ++i) {
    int64_t dilation = dilated ? a.dilation[i] : 1;
    if (a.kernel[i] < 1 || a.stride[i] < 1 || dilation < 1) return "kernel, stride and dilation must be positive";
    if (a.padding[i] < 0 || a.padding[i] > a.kernel[i] / 2) return "padding must be at most half the kernel";
    int64_t room = x[i + 2] + 2 * a.padding[i] - dilation * (a.kernel[i] - 1) - 1;
    const int64_t span =
        room + (a.ceil_mode ? a.stride[i] - 1 : 0);  // a last window may hang over, by less than a stride
    if (span < 0) return "the kernel is larger than the padded input";
    int64_t extent = span / a.stride[i] + 1;
    if (a.ceil_mode && (extent - 1) * a.stride[i] >= x[i + 2] + a.padding[i]) --extent;
    if (extent < 1) return "no window begins inside the padded input";
    y.push_back(extent);
  }
  return "";
}

}  // namespace

Result<Types> matmul(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, c.x(0).dtype));
  const Shape &a = c.x(0).shape, &b = c.x(1).shape;
  if (a.size() < 2 || b.size() < 2) return c.fail("both operands want at least two axes");
  if (a.back() != b[b.size() - 2]) return c.fail("inner extents differ");
  std::optional<Shape> shape = broadcast_shape(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!shape) return c.fail("leading axes cannot be broadcast");
  shape->push_back(a[a.size() - 2]);
  shape->push_back(b.back());
  return Types{{c.x(0).dtype, std::move(*shape)}};
}

Result<Types> linear(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2, 1));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, c.x(0).dtype));
  TensorType y = c.x(0);
  const Shape& w = c.x(1).shape;
  if (y.shape.empty() || w.size() != 2) return c.fail("wants x [.., I] and weight [O, I]");
  if (y.shape.back() != w[1]) return c.fail("inner extents differ");
  y.shape.back() = w[0];
  PIPER_RETURN_IF_ERROR(c.want(2, {y.dtype, {w[0]}}));
  return Types{y};
}

Result<Types> linear_backward(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, c.x(0).dtype));
  const Shape &g = c.x(0).shape, &other = c.x(1).shape;
  if (g.empty() || other.empty()) return c.fail("operands want at least one axis");
  if (c.kind == OpKind::kLinearBackwardInput) {
    if (other.size() != 2 || g.back() != other[0]) return c.fail("wants g [.., O] and weight [O, I]");
    TensorType y = c.x(0);
    y.shape.back() = other[1];
    return Types{y};
  }
  if (Shape(g.begin(), g.end() - 1) != Shape(other.begin(), other.end() - 1))
    return c.fail("leading axes of g and x differ");
  return Types{{c.x(0).dtype, {g.back(), other.back()}}};
}

Result<Types> convolution(const Call& c) {
  const auto& a = c.as<ConvolutionAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(2, 1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, c.x(0).dtype));
  TensorType y{c.x(0).dtype, {}};
  std::string why = convolve(c.x(0).shape, c.x(1).shape, {a.stride, a.padding, a.dilation, a.groups}, y.shape);
  if (!why.empty()) return c.fail(why);
  PIPER_RETURN_IF_ERROR(c.want(2, {y.dtype, {c.x(1).shape[0]}}));
  return Types{y};
}

Result<Types> convolution_backward(const Call& c) {
  const auto& a = c.as<ConvolutionBackwardAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(2));
  PIPER_RETURN_IF_ERROR(c.want_dtype(1, c.x(0).dtype));
  bool input = c.kind == OpKind::kConvolutionBackwardInput;
  const Shape& x = input ? a.shape : c.x(1).shape;
  const Shape& w = input ? c.x(1).shape : a.shape;
  TensorType g{c.x(0).dtype, {}};
  std::string why = convolve(x, w, {a.stride, a.padding, a.dilation, a.groups}, g.shape);
  if (!why.empty()) return c.fail(why);
  PIPER_RETURN_IF_ERROR(c.want(0, g));
  return Types{{g.dtype, a.shape}};
}

Result<Types> pool(const Call& c) {
  const bool max = c.kind == OpKind::kMaxPool2d;
  PIPER_RETURN_IF_ERROR(c.require(1));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  TensorType y{c.x(0).dtype, {}};
  const std::string why = pooled(c.x(0).shape, c.as<PoolAttrs>(), max, y.shape);
  if (!why.empty()) return c.fail(why);
  if (!max) return Types{y};
  return Types{y, {DType::kI64, y.shape}};
}

Result<Types> pool_backward(const Call& c) {
  const bool max = c.kind == OpKind::kMaxPool2dBackward;
  const auto& a = c.as<PoolBackwardAttrs>();
  PIPER_RETURN_IF_ERROR(c.require(max ? 2 : 1));
  TensorType g{c.x(0).dtype, {}};
  const std::string why = pooled(a.shape, a, max, g.shape);
  if (!why.empty()) return c.fail(why);
  PIPER_RETURN_IF_ERROR(c.want(0, g));
  if (max) PIPER_RETURN_IF_ERROR(c.want(1, {DType::kI64, g.shape}));
  return Types{{g.dtype, a.shape}};
}

Result<Types> rotary(const Call& c) {
  PIPER_RETURN_IF_ERROR(c.require(3));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  const TensorType& x = c.x(0);
  if (x.shape.size() < 2 || x.shape.back() % 2 != 0) return c.fail("operand 0 must be [.., S, D], D even");
  for (size_t table : {1, 2}) {
    const TensorType& t = c.x(table);
    const bool typed = t.dtype == x.dtype || (is_half(x.dtype) && t.dtype == DType::kF32);
    if (!typed || t.shape.empty() || t.shape.back() != x.shape.back() || broadcast_shape(t.shape, x.shape) != x.shape)
      return c.fail("operand " + std::to_string(table) + " is no table for operand 0");
  }
  return Types{x};
}

Result<Types> attention(const Call& c) {
  bool backward = c.kind == OpKind::kSdpaBackward;
  size_t q_at = backward ? 1 : 0;
  size_t mask_at = backward ? 6 : 3;
  PIPER_RETURN_IF_ERROR(c.require(mask_at, backward ? 1 : 2));
  const TensorType &q = c.x(q_at), &k = c.x(q_at + 1), &v = c.x(q_at + 2);
  PIPER_RETURN_IF_ERROR(c.want_float(q_at));
  if (k.dtype != q.dtype || v.dtype != q.dtype) return c.fail("q, k and v have different dtypes");
  if (q.shape.size() != 4 || k.shape.size() != 4 || v.shape.size() != 4)
    return c.fail("q, k and v want four axes [batch, heads, sequence, width]");
  int64_t heads = q.shape[1], kv_heads = k.shape[1];
  if (k.shape[0] != q.shape[0] || k.shape[3] != q.shape[3] || v.shape[0] != q.shape[0] || v.shape[1] != kv_heads ||
      v.shape[2] != k.shape[2])
    return c.fail("q, k and v do not fit together");
  if (v.shape[3] != q.shape[3]) return c.fail("v wants the width of q and k: the kernels compute with one");
  if (kv_heads == 0 || heads % kv_heads) return c.fail("heads of q must be a multiple of those of k");
  const TensorType* mask = c.optional(mask_at);
  if (const std::string& attends = c.as<SdpaAttrs>().attends; !attends.empty()) {
    const Shape vectors = mask == nullptr ? Shape{1, 1, 0, 0} : mask->shape;
    if (mask != nullptr && mask->dtype != DType::kI64) return c.fail("the vectors that `attends` reads must be i64");
    if (vectors.size() != 4 || vectors[1] != 1 || (vectors[0] != 1 && vectors[0] != q.shape[0]))
      return c.fail("the vectors that `attends` reads want the axes [batch or 1, 1, vectors, places]");
    const auto parsed = form::parse_attends(attends, q.shape[2], k.shape[2], vectors[2], vectors[3]);
    if (!parsed.ok()) return c.fail(parsed.error().message);
    if (c.as<SdpaAttrs>().is_causal) return c.fail("`attends` says what is causal, too");
  } else if (mask != nullptr) {
    if (mask->dtype != DType::kBool && mask->dtype != q.dtype) return c.fail("the mask must be bool or of q's dtype");
    const Shape scores{q.shape[0], heads, q.shape[2], k.shape[2]};
    if (broadcast_shape(mask->shape, scores) != scores)
      return c.fail("the mask cannot be broadcast to [batch, heads, S, T]");
  }
  if (const TensorType* sink = backward ? nullptr : c.optional(mask_at + 1))
    if (*sink != TensorType{q.dtype, {q.shape[0], heads, q.shape[2], 1}})
      return c.fail("the sink must be of q's dtype and have the axes [batch, heads, sequence, 1]");
  TensorType y = q;
  TensorType lse{DType::kF32, {q.shape[0], heads, q.shape[2]}};
  if (!backward) return Types{y, lse};
  PIPER_RETURN_IF_ERROR(c.want(0, y));
  PIPER_RETURN_IF_ERROR(c.want(4, y));
  PIPER_RETURN_IF_ERROR(c.want(5, lse));
  return Types{q, k, v};
}

Result<Types> attention_sink(const Call& c) {
  const bool backward = c.kind == OpKind::kAttentionSinkBackward;
  const size_t lse_at = backward ? 2 : 1;
  PIPER_RETURN_IF_ERROR(c.require(lse_at + 2));
  PIPER_RETURN_IF_ERROR(c.want_float(0));
  const TensorType &y = c.x(0), lse{DType::kF32, {y.shape.begin(), y.shape.end() - (y.shape.empty() ? 0 : 1)}};
  if (y.shape.size() != 4) return c.fail("attention's result wants four axes [batch, heads, sequence, width]");
  TensorType sink = y;
  sink.shape.back() = 1;
  PIPER_RETURN_IF_ERROR(c.want(lse_at, lse));
  PIPER_RETURN_IF_ERROR(c.want(lse_at + 1, sink));
  if (!backward) return Types{y, lse};
  PIPER_RETURN_IF_ERROR(c.want(1, y));
  return Types{sink};
}

}  // namespace piper::ir::infer
