#include "compiler/autodiff/rules/folded_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::autodiff::rules {

namespace {

// The value below expands and reshapes: its elements are the same numbers.
ValueId strip_broadcast(const ir::Graph& graph, ValueId value) {
  while (graph.value(value).kind == ir::ValueKind::kOpResult) {
    const ir::Op& op = graph.op(graph.value(value).producer);
    if (op.kind != OpKind::kExpand && op.kind != OpKind::kReshape) break;
    value = op.operands[0];
  }
  return value;
}

template <class T>
double read_as(const std::vector<std::byte>& data) {
  T value{};
  std::memcpy(&value, data.data(), sizeof value);
  return static_cast<double>(value);
}

// Products by these are the same before and after their factors are rounded to fewer bits, as `precision` asks for.
bool is_power_of_two(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5;
}

}  // namespace

std::optional<double> constant_value(const ir::Graph& graph, ValueId value) {
  const ir::Value& root = graph.value(strip_broadcast(graph, value));
  if (root.kind != ir::ValueKind::kConstant || root.type.elements() != 1) return std::nullopt;
  const ir::WeightSource& source = graph.constants()[root.payload].source;
  if (source.data == nullptr || static_cast<int64_t>(source.data->size()) != root.type.bytes()) return std::nullopt;
  switch (root.type.dtype) {
    case DType::kF32: return read_as<float>(*source.data);
    case DType::kF64: return read_as<double>(*source.data);
    case DType::kBF16:
    case DType::kF16:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool: return std::nullopt;
  }
  return std::nullopt;
}

ValueId scalar(const RuleContext& ctx, double value, DType dtype) {
  const ir::Graph& graph = ctx.b.graph();
  const double rounded = dtype == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : value;
  const std::vector<ir::Constant>& all = graph.constants();
  const auto made = std::find_if(all.begin(), all.end(), [&](const ir::Constant& constant) {
    const ir::TensorType& type = graph.type(constant.value);
    return type.shape.empty() && type.dtype == dtype && constant_value(graph, constant.value) == rounded;
  });
  return ctx.b.leaves_out(made != all.end()) ? made->value : ctx.b.scalar(value, dtype);
}

ValueId multiply(const RuleContext& ctx, ValueId g, ValueId x) {
  const ir::Graph& graph = ctx.b.graph();
  const std::optional<double> g_constant = constant_value(graph, g), x_constant = constant_value(graph, x);
  const std::optional<ir::Shape> shape = ir::broadcast_shape(ctx.b.type(g).shape, ctx.b.type(x).shape);
  PIPER_CHECK(shape, to_string(ctx.b.type(g)), " times ", to_string(ctx.b.type(x)));
  if (g_constant && x_constant) {
    const bool exact = is_power_of_two(*g_constant) || is_power_of_two(*x_constant);
    return ctx.b.expand(exact ? scalar(ctx, *g_constant * *x_constant, ctx.b.type(g).dtype)
                              : ctx.b.add1(OpKind::kMul, {strip_broadcast(graph, g), strip_broadcast(graph, x)}),
                        *shape);
  }
  if (g_constant == 1.0) return ctx.b.expand(x, *shape);
  if (x_constant == 1.0) return ctx.b.expand(g, *shape);
  return ctx.b.add1(OpKind::kMul, {g, x});
}

ValueId scale(const RuleContext& ctx, ValueId x, double factor) {
  if (factor == 1.0) return x;
  const DType dtype = ctx.b.type(x).dtype;
  // As the product of the two scalars that a kernel would read: a plan that divides by a count makes it in a call.
  const double rounded = dtype == DType::kF32 ? static_cast<double>(static_cast<float>(factor)) : factor;
  if (const std::optional<double> constant = constant_value(ctx.b.graph(), x))
    return ctx.b.expand(scalar(ctx, *constant * rounded, dtype), ctx.b.type(x).shape);
  return ctx.b.add1(OpKind::kMul, {x, scalar(ctx, factor, dtype)});
}

ValueId divide(const RuleContext& ctx, ValueId g, ValueId x) {
  const ir::Graph& graph = ctx.b.graph();
  const DType dtype = ctx.b.type(g).dtype;
  const std::optional<double> g_constant = constant_value(graph, g), x_constant = constant_value(graph, x);
  const auto rounded = [&](double v) { return dtype == DType::kF32 ? static_cast<double>(static_cast<float>(v)) : v; };
  // As the mean of a whole step scales: by the reciprocal of its count.
  if (!g_constant || !x_constant || rounded(*g_constant * rounded(1 / *x_constant)) != 1.0)
    return ctx.b.add1(OpKind::kDiv, {g, x});
  const std::optional<ir::Shape> shape = ir::broadcast_shape(ctx.b.type(g).shape, ctx.b.type(x).shape);
  PIPER_CHECK(shape, to_string(ctx.b.type(g)), " by ", to_string(ctx.b.type(x)));
  return ctx.b.expand(scalar(ctx, 1.0, dtype), *shape);
}

ValueId negate(const RuleContext& ctx, ValueId x) {
  if (constant_value(ctx.b.graph(), x)) return scale(ctx, x, -1.0);
  return ctx.b.add1(OpKind::kNeg, {x});
}

ValueId zeros(const RuleContext& ctx, const ir::TensorType& type) {
  return ctx.b.add1(OpKind::kFill, {}, ir::FillAttrs{type.shape, 0.0, type.dtype});
}

}  // namespace piper::autodiff::rules
