#include "compiler/frontend/patterns/rotary.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/copy_graph.h"

namespace piper::frontend {
namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

struct Rotary {
  ValueId x, cos, sin;
};

class RotaryRecogniser {
 public:
  explicit RotaryRecogniser(const ir::Graph& graph) : from_(graph), trained_(graph.num_values(), false) {
    for (const ir::Parameter& parameter : graph.parameters()) trained_[parameter.value.index] = parameter.trainable;
    for (size_t i = 0; i < graph.num_ops(); ++i) {
      const Op& op = graph.op(OpId(i));
      const bool trained = std::any_of(op.operands.begin(), op.operands.end(),
                                       [&](ValueId v) { return v.valid() && trained_[v.index]; });
      for (ValueId result : op.results) trained_[result.index] = trained && op.kind != OpKind::kDetach;
    }
  }

  // By the op that gives the turned value.
  std::unordered_map<uint32_t, Rotary> find() const {
    std::unordered_map<uint32_t, Rotary> found;
    for (size_t i = 0; i < from_.num_ops(); ++i)
      if (const std::optional<Rotary> rotary = rotary_of(from_.op(OpId(i))))
        found.emplace(static_cast<uint32_t>(i), *rotary);
    return found;
  }

  ir::Graph copy(const std::unordered_map<uint32_t, Rotary>& found) const {
    ir::Graph to;
    ir::CopyGraph copy(from_, to);
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const auto rotary = found.find(static_cast<uint32_t>(i));
      if (rotary == found.end()) copy.copy_op(OpId(i));
      else
        copy.append_like(
            OpId(i), OpKind::kRotary, ir::NoAttrs{},
            {copy.moved(rotary->second.x), copy.moved(rotary->second.cos), copy.moved(rotary->second.sin)});
    }
    copy.finish();
    drop_unread(to);
    return to;
  }

 private:
  // The halves of the last axis: x where `v` is the half that begins at `start`.
  bool is_half(ValueId v, ValueId x, bool second) const {
    const Op* slice = from_.made_by(v, OpKind::kSlice);
    if (slice == nullptr || slice->operands[0] != x) return false;
    const auto& a = std::get<ir::SliceAttrs>(slice->attrs);
    const std::vector<int64_t>& shape = from_.type(x).shape;
    const int64_t half = shape.back() / 2, start = second ? half : 0;
    return a.dim + 1 == static_cast<int64_t>(shape.size()) && a.step == 1 && a.start == start && a.end == start + half;
  }

  // v = cat(-x2, x1) along the last axis
  bool is_turned(ValueId v, ValueId x) const {
    const Op* cat = from_.made_by(v, OpKind::kCat);
    const std::vector<int64_t>& shape = from_.type(x).shape;
    if (cat == nullptr || cat->operands.size() != 2 || shape.size() < 2 || shape.back() % 2 != 0 ||
        std::get<ir::DimAttrs>(cat->attrs).dim + 1 != static_cast<int64_t>(shape.size()))
      return false;
    const Op* negated = from_.made_by(cat->operands[0], OpKind::kNeg);
    return negated != nullptr && is_half(negated->operands[0], x, true) && is_half(cat->operands[1], x, false);
  }

  std::optional<Rotary> rotary_of(const Op& op) const {
    if (op.kind != OpKind::kAdd) return std::nullopt;
    for (const int side : {0, 1}) {
      const Op* straight = from_.made_by(op.operands[side], OpKind::kMul);
      const Op* turned = from_.made_by(op.operands[1 - side], OpKind::kMul);
      if (straight == nullptr || turned == nullptr) continue;
      for (const int a : {0, 1})
        for (const int b : {0, 1}) {
          const Rotary rotary{straight->operands[a], straight->operands[1 - a], turned->operands[1 - b]};
          if (is_turned(turned->operands[b], rotary.x) && fits(rotary)) return rotary;
        }
    }
    return std::nullopt;
  }

  bool fits(const Rotary& r) const {
    return !trained_[r.cos.index] && !trained_[r.sin.index] &&
           ir::infer_types(OpKind::kRotary, ir::NoAttrs{}, {&from_.type(r.x), &from_.type(r.cos), &from_.type(r.sin)})
               .ok();
  }

  const ir::Graph& from_;
  std::vector<bool> trained_;  // [value] made of trained parameters
};

}  // namespace

ir::Graph recognise_rotary(ir::Graph graph) {
  const RotaryRecogniser recogniser(graph);
  const auto found = recogniser.find();
  return found.empty() ? std::move(graph) : recogniser.copy(found);
}

}  // namespace piper::frontend
