#include "compiler/frontend/patterns/rms_norm.h"

#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compiler/frontend/fold.h"
#include "compiler/ir/copy_graph.h"

namespace piper::frontend {
namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

struct Norm {
  ValueId x, weight;  // weight may be invalid
  double eps = 0;
};

class RmsNormRecogniser {
 public:
  explicit RmsNormRecogniser(const ir::Graph& graph) : from_(graph), uses_(graph.uses()) {}

  // By the op that gives the normalised value.
  std::unordered_map<uint32_t, Norm> find() const {
    std::unordered_map<uint32_t, Norm> norms;
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const std::optional<Norm> norm = plain_norm(from_.op(OpId(i)));
      if (!norm) continue;
      const ValueId y = from_.op(OpId(i)).results[0];
      const std::optional<std::pair<OpId, ValueId>> weighted = weighting(y);
      if (weighted) norms[weighted->first.index] = {norm->x, weighted->second, norm->eps};
      else norms[static_cast<uint32_t>(i)] = *norm;
    }
    return norms;
  }

  ir::Graph copy(const std::unordered_map<uint32_t, Norm>& norms) const {
    ir::Graph to;
    ir::CopyGraph copy(from_, to);
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const OpId id(i);
      const auto found = norms.find(id.index);
      if (found == norms.end()) {
        copy.copy_op(id);
        continue;
      }
      const Norm& norm = found->second;
      const ir::TensorType& y = from_.type(from_.op(id).results[0]);
      const int64_t width = y.shape.back();
      const ir::TensorType rows{DType::kF32, {width > 0 ? y.elements() / width : 0}};
      copy.append_like(id, OpKind::kRmsNorm, ir::LayerNormAttrs{1, norm.eps},
                       {copy.moved(norm.x), copy.moved(norm.weight)}, {rows});
    }
    copy.finish();
    return to;
  }

 private:
  // The value of an f32 constant of one element.
  std::optional<double> scalar(ValueId v) const {
    const std::optional<ConstantTensor> c = constant_of(from_, v);
    if (!c || c->type.dtype != DType::kF32 || c->type.elements() != 1) return std::nullopt;
    float f = 0;
    std::memcpy(&f, c->data()->data(), sizeof f);
    return static_cast<double>(f);
  }

  // v = x^2
  bool is_square(ValueId v, ValueId x) const {
    if (const Op* power = from_.made_by(v, OpKind::kPowScalar))
      return power->operands[0] == x && std::get<ir::ExponentAttrs>(power->attrs).exponent == 2;
    const Op* product = from_.made_by(v, OpKind::kMul);
    return product != nullptr && product->operands[0] == x && product->operands[1] == x;
  }

  // v = mean(x^2, last axis, kept) + eps
  std::optional<double> eps_of(ValueId v, ValueId x) const {
    const Op* add = from_.made_by(v, OpKind::kAdd);
    if (add == nullptr) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      const Op* mean = from_.made_by(add->operands[side], OpKind::kMean);
      const std::optional<double> eps = scalar(add->operands[1 - side]);
      if (mean == nullptr || !eps) continue;
      const auto& attrs = std::get<ir::ReduceAttrs>(mean->attrs);
      const int64_t last = static_cast<int64_t>(from_.type(x).shape.size()) - 1;
      if (attrs.keepdim && attrs.dims == std::vector<int64_t>{last} && is_square(mean->operands[0], x)) return eps;
    }
    return std::nullopt;
  }

  // x * rsqrt(..), x * reciprocal(sqrt(..)) or x / sqrt(..)
  std::optional<Norm> plain_norm(const Op& op) const {
    const auto try_side = [&](ValueId x, ValueId root) -> std::optional<Norm> {
      if (from_.type(x).dtype != DType::kF32 || from_.type(x).shape.empty()) return std::nullopt;
      const std::optional<double> eps = eps_of(root, x);
      if (!eps) return std::nullopt;
      return Norm{x, ValueId(), *eps};
    };
    if (op.kind == OpKind::kMul) {
      for (int side = 0; side < 2; ++side) {
        const ValueId x = op.operands[side], factor = op.operands[1 - side];
        if (const Op* r = from_.made_by(factor, OpKind::kRsqrt))
          if (const std::optional<Norm> norm = try_side(x, r->operands[0])) return norm;
        if (const Op* r = from_.made_by(factor, OpKind::kReciprocal))
          if (const Op* s = from_.made_by(r->operands[0], OpKind::kSqrt))
            if (const std::optional<Norm> norm = try_side(x, s->operands[0])) return norm;
      }
    } else if (op.kind == OpKind::kDiv) {
      if (const Op* s = from_.made_by(op.operands[1], OpKind::kSqrt)) return try_side(op.operands[0], s->operands[0]);
    }
    return std::nullopt;
  }

  // The only reader of y, where it multiplies y by a weight over the last axis.
  std::optional<std::pair<OpId, ValueId>> weighting(ValueId y) const {
    for (const ir::Graph::Output& out : from_.outputs)
      if (out.value == y) return std::nullopt;
    if (uses_[y.index].size() != 1) return std::nullopt;
    const OpId id = uses_[y.index][0];
    const Op& op = from_.op(id);
    if (op.kind != OpKind::kMul || op.operands[0] == op.operands[1]) return std::nullopt;
    const ValueId w = op.operands[0] == y ? op.operands[1] : op.operands[0];
    if (from_.type(w).dtype != DType::kF32 || from_.type(w).shape != std::vector<int64_t>{from_.type(y).shape.back()})
      return std::nullopt;
    return std::make_pair(id, w);
  }

  const ir::Graph& from_;
  ir::Uses uses_;
};

}  // namespace

ir::Graph recognise_rms_norm(ir::Graph graph) {
  const RmsNormRecogniser recogniser(graph);
  const auto norms = recogniser.find();
  return norms.empty() ? std::move(graph) : recogniser.copy(norms);
}

}  // namespace piper::frontend
