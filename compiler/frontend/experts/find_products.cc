#include "compiler/frontend/experts/find_products.h"

#include <cstring>

#include "compiler/frontend/fold.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::experts {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

const Op* producer(const ir::Graph& graph, ValueId v) {
  if (!v.valid() || graph.value(v).kind != ir::ValueKind::kOpResult) return nullptr;
  return &graph.op(graph.value(v).producer);
}

// Made of parameters and constants by views and casts.
bool is_weight(const ir::Graph& graph, ValueId v) {
  const Op* op = producer(graph, v);
  if (op == nullptr)
    return graph.value(v).kind == ir::ValueKind::kParameter || graph.value(v).kind == ir::ValueKind::kConstant;
  switch (op->kind) {
    case OpKind::kReshape:
    case OpKind::kPermute:
    case OpKind::kSlice:
    case OpKind::kCast:
    case OpKind::kDetach: return is_weight(graph, op->operands[0]);
    default: return false;
  }
}

// Matrices of experts as a product reads them: gathered, then seen through views.
struct Gathered {
  ValueId weight, index;
  bool swapped = false;  // the two axes of each matrix are the other way round than in `weight`
};

std::optional<Gathered> gathered(const ir::Graph& graph, ValueId v) {
  const Op* op = producer(graph, v);
  if (op == nullptr) return std::nullopt;
  if (op->kind == OpKind::kIndexSelect) {
    const Shape& w = graph.type(op->operands[0]).shape;
    if (w.size() != 3 || std::get<ir::DimAttrs>(op->attrs).dim != 0 || !is_weight(graph, op->operands[0]))
      return std::nullopt;
    return Gathered{op->operands[0], op->operands[1], false};
  }
  if (op->kind != OpKind::kReshape && op->kind != OpKind::kPermute) return std::nullopt;
  std::optional<Gathered> below = gathered(graph, op->operands[0]);
  if (!below) return std::nullopt;
  const Shape &from = graph.type(op->operands[0]).shape, &to = graph.type(v).shape;
  if (from.size() < 3 || to.size() < 3) return std::nullopt;
  if (op->kind == OpKind::kReshape) {
    const bool same = to[to.size() - 1] == from[from.size() - 1] && to[to.size() - 2] == from[from.size() - 2];
    return same ? below : std::nullopt;
  }
  const Shape& dims = std::get<ir::PermuteAttrs>(op->attrs).dims;
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  for (int64_t i = 0; i + 1 < last; ++i)
    if (dims[static_cast<size_t>(i)] != i) return std::nullopt;
  if (dims[static_cast<size_t>(last)] != last) below->swapped = !below->swapped;
  return below;
}

std::optional<int64_t> known_scalar(const ir::Graph& graph, ValueId v) {
  const std::optional<ConstantTensor> c = constant_of(graph, v);
  if (!c || c->type.dtype != DType::kI64 || c->type.elements() != 1) return std::nullopt;
  int64_t number = 0;
  std::memcpy(&number, c->data()->data(), sizeof number);
  return number;
}

// ids of where(ids < 0, ids + extent, ids), else invalid.
ValueId unwrapped(const ir::Graph& graph, const Op& where) {
  const Op *less = producer(graph, where.operands[0]), *sum = producer(graph, where.operands[1]);
  const ValueId ids = where.operands[2];
  if (less == nullptr || less->kind != OpKind::kLt || sum == nullptr || sum->kind != OpKind::kAdd) return ValueId();
  if (less->operands[0] != ids || sum->operands[0] != ids) return ValueId();
  if (known_scalar(graph, less->operands[1]) != 0 || !known_scalar(graph, sum->operands[1])) return ValueId();
  return ids;
}

// [T, k, M], a reshape of one product for each token: [T, 1, K] x [T, K, k * M] or [T, k * M, K] x [T, K, 1].
std::optional<Product> wide_product_of(const ir::Graph& graph, const Op& op) {
  const Op* matmul = producer(graph, op.operands[0]);
  const Shape& y = graph.type(op.results[0]).shape;
  if (matmul == nullptr || matmul->kind != OpKind::kMatmul || y.size() != 3) return std::nullopt;
  for (size_t side = 0; side < 2; ++side) {
    const Op* wide = producer(graph, matmul->operands[side]);
    const Shape &all = graph.type(matmul->operands[side]).shape, &row = graph.type(matmul->operands[1 - side]).shape;
    if (wide == nullptr || wide->kind != OpKind::kReshape || all.size() != 3 || row.size() != 3) continue;
    const int64_t in = all[side == 0 ? 2 : 1];
    if (all != (side == 0 ? Shape{y[0], y[1] * y[2], in} : Shape{y[0], in, y[1] * y[2]})) continue;
    if (row != (side == 0 ? Shape{y[0], in, 1} : Shape{y[0], 1, in})) continue;
    ValueId apart = wide->operands[0];
    if (side == 1) {
      const Op* turned = producer(graph, apart);
      if (turned == nullptr || turned->kind != OpKind::kPermute ||
          std::get<ir::PermuteAttrs>(turned->attrs).dims != Shape{0, 2, 1, 3})
        continue;
      apart = turned->operands[0];
    }
    if (graph.type(apart).shape != (side == 0 ? Shape{y[0], y[1], y[2], in} : Shape{y[0], y[1], in, y[2]})) continue;
    const std::optional<Gathered> matrices = gathered(graph, apart);
    if (!matrices) continue;
    Product p;
    p.weight = matrices->weight;
    p.index = matrices->index;
    p.row = matmul->operands[1 - side];
    p.transposed = (side == 0) != matrices->swapped;
    p.prefix = 2;
    p.row_prefix = 1;
    p.rows = y[0] * y[1];
    p.in = in;
    p.out = y[2];
    return p;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Product> product_of(const ir::Graph& graph, const Op& op) {
  if (op.kind == OpKind::kReshape) return wide_product_of(graph, op);
  if (op.kind != OpKind::kMatmul) return std::nullopt;
  for (size_t side = 0; side < 2; ++side) {
    const std::optional<Gathered> matrices = gathered(graph, op.operands[side]);
    if (!matrices) continue;
    Product p;
    p.weight = matrices->weight;
    p.index = matrices->index;
    p.row = op.operands[1 - side];
    const Shape &own = graph.type(op.operands[side]).shape, &row = graph.type(p.row).shape,
                &y = graph.type(op.results[0]).shape;
    p.prefix = p.row_prefix = y.size() - 2;
    p.rows = graph.type(p.index).shape[0];
    // One row for each matrix, and none of them read by several rows.
    if (own.size() != y.size() || row.size() != y.size()) continue;
    if (ir::elements(own, 0, p.prefix) != p.rows || ir::elements(y, 0, p.prefix) != p.rows) continue;
    // A row may serve several experts that are next to each other: [T, 1, K] for T * k rows.
    bool broadcast = false, fits = true;
    for (size_t i = 0; i < p.prefix; ++i) {
      fits = fits && (row[i] == 1 || (!broadcast && row[i] == y[i]));
      broadcast = broadcast || row[i] != y[i];
    }
    if (!fits) continue;
    if (row[row.size() - (side == 0 ? 1 : 2)] != 1) continue;
    p.in = row[row.size() - (side == 0 ? 2 : 1)];
    p.out = side == 0 ? own[own.size() - 2] : own.back();
    // y = matrix x row reads [M, K], row x matrix reads [K, M].
    p.transposed = (side == 0) != matrices->swapped;
    return p;
  }
  return std::nullopt;
}

ValueId root_of_index(const ir::Graph& graph, ValueId index) {
  for (;;) {
    const Op* op = producer(graph, index);
    if (op == nullptr) return index;
    ValueId below;
    if (op->kind == OpKind::kReshape) below = op->operands[0];
    if (op->kind == OpKind::kWhere) below = unwrapped(graph, *op);
    if (!below.valid()) return index;
    index = below;
  }
}

bool is_never_negative(const ir::Graph& graph, ValueId v) {
  const Op* op = producer(graph, v);
  if (op == nullptr) return false;
  switch (op->kind) {
    case OpKind::kTopk:
    case OpKind::kMaxDim: return graph.value(v).result_index == 1;
    case OpKind::kReshape:
    case OpKind::kPermute:
    case OpKind::kExpand:
    case OpKind::kSlice:
    case OpKind::kDetach: return is_never_negative(graph, op->operands[0]);
    default: return false;
  }
}

}  // namespace piper::frontend::experts
