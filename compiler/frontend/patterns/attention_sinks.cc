#include "compiler/frontend/patterns/attention_sinks.h"

#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/frontend/fold.h"
#include "compiler/frontend/aten/trained_values.h"
#include "compiler/ir/copy_graph.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend {
namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

struct Attention {
  ValueId q, k, v, sink, mask;  // [B, H, S, D], [B, H of keys, T, D] twice, [B, H, S, 1]; mask may be invalid
  double scale = 1;
};

class SinkRecogniser {
 public:
  explicit SinkRecogniser(const ir::Graph& graph) : from_(graph) {}

  // By the product with the values.
  std::unordered_map<uint32_t, Attention> find() const {
    std::unordered_map<uint32_t, Attention> found;
    for (size_t i = 0; i < from_.num_ops(); ++i)
      if (const std::optional<Attention> attention = attention_of(from_.op(OpId(i))))
        found.emplace(static_cast<uint32_t>(i), *attention);
    return found;
  }

  ir::Graph copy(const std::unordered_map<uint32_t, Attention>& found) const {
    ir::Graph to;
    ir::CopyGraph copy(from_, to);
    for (size_t i = 0; i < from_.num_ops(); ++i) {
      const auto attention = found.find(static_cast<uint32_t>(i));
      if (attention == found.end()) copy.copy_op(OpId(i));
      else put(attention->second, OpId(i), to, copy);
    }
    copy.finish();
    return to;
  }

 private:
  const Shape& shape(ValueId v) const { return from_.type(v).shape; }

  // Below what changes nothing.
  ValueId below(ValueId v) const {
    while (from_.value(v).kind == ir::ValueKind::kOpResult) {
      const Op& op = from_.op(from_.value(v).producer);
      const bool moves = op.kind == OpKind::kCast || op.kind == OpKind::kCopy || op.kind == OpKind::kReshape ||
                         op.kind == OpKind::kExpand || op.kind == OpKind::kSlice;
      const bool drops_nothing = op.kind == OpKind::kDropout && std::get<ir::DropoutAttrs>(op.attrs).p == 0;
      if ((!moves && !drops_nothing) || !(from_.type(op.operands[0]) == from_.type(v))) return v;
      v = op.operands[0];
    }
    return v;
  }
  const Op* made_by(ValueId v, OpKind kind) const { return from_.made_by(below(v), kind); }

  std::optional<double> number(ValueId v) const {
    const std::optional<ConstantTensor> c = constant_of(from_, v);
    if (!c || c->type.dtype != DType::kF32 || c->type.elements() != 1) return std::nullopt;
    float f = 0;
    std::memcpy(&f, c->data()->data(), sizeof f);
    return static_cast<double>(f);
  }

  // What each head of keys is before it is repeated for its queries' heads.
  ValueId unrepeated(ValueId v) const {
    const Op* joined = made_by(v, OpKind::kReshape);
    const Op* repeated = joined != nullptr ? made_by(joined->operands[0], OpKind::kExpand) : nullptr;
    const Op* parted = repeated != nullptr ? made_by(repeated->operands[0], OpKind::kReshape) : nullptr;
    if (parted == nullptr || shape(repeated->results[0]).size() != 5) return below(v);
    const ValueId x = below(parted->operands[0]);
    const Shape &s = shape(x), &wide = shape(repeated->results[0]);
    if (s.size() != 4 || shape(parted->results[0]) != Shape{s[0], s[1], 1, s[2], s[3]} ||
        wide != Shape{s[0], s[1], wide[2], s[2], s[3]} || shape(v) != Shape{s[0], s[1] * wide[2], s[2], s[3]})
      return below(v);
    return x;
  }

  // q k^T * scale
  bool take_scores(ValueId v, Attention& found) const {
    if (const Op* scaled = made_by(v, OpKind::kMul)) {
      for (const int side : {0, 1})
        if (const std::optional<double> scale = number(scaled->operands[1 - side]); scale && *scale != 0) {
          found.scale = *scale;
          v = scaled->operands[side];
          break;
        }
    }
    const Op* product = made_by(v, OpKind::kMatmul);
    const Op* turned = product != nullptr ? made_by(product->operands[1], OpKind::kPermute) : nullptr;
    if (turned == nullptr || std::get<ir::PermuteAttrs>(turned->attrs).dims != std::vector<int64_t>{0, 1, 3, 2})
      return false;
    found.q = below(product->operands[0]);
    found.k = unrepeated(turned->operands[0]);
    return true;
  }

  // x, of x - max(x): the softmax is the same.
  ValueId unshifted(ValueId v) const {
    const Op* shifted = made_by(v, OpKind::kSub);
    if (shifted == nullptr) return v;
    const ValueId x = shifted->operands[0], most = below(shifted->operands[1]);
    const Op *of_one = from_.made_by(most, OpKind::kMaxDim), *of_several = from_.made_by(most, OpKind::kAmax);
    const bool along_keys =
        (of_one != nullptr && of_one->results[0] == most && std::get<ir::TopkAttrs>(of_one->attrs).dim == 3 &&
         below(of_one->operands[0]) == below(x)) ||
        (of_several != nullptr && std::get<ir::ReduceAttrs>(of_several->attrs).dims == std::vector<int64_t>{3} &&
         std::get<ir::ReduceAttrs>(of_several->attrs).keepdim && below(of_several->operands[0]) == below(x));
    return along_keys ? x : v;
  }

  std::optional<Attention> attention_of(const Op& op) const {
    if (op.kind != OpKind::kMatmul || op.phase != ir::Phase::kForward || shape(op.results[0]).size() != 4)
      return std::nullopt;
    const Op* kept = made_by(op.operands[0], OpKind::kSlice);
    if (kept == nullptr) return std::nullopt;
    const auto& slice = std::get<ir::SliceAttrs>(kept->attrs);
    const Op* softmax = made_by(kept->operands[0], OpKind::kSoftmax);
    if (softmax == nullptr || std::get<ir::DimAttrs>(softmax->attrs).dim != 3 || slice.dim != 3 || slice.start != 0 ||
        slice.step != 1 || slice.end + 1 != shape(kept->operands[0])[3])
      return std::nullopt;
    const Op* joined = made_by(unshifted(softmax->operands[0]), OpKind::kCat);
    if (joined == nullptr || joined->operands.size() != 2 || std::get<ir::DimAttrs>(joined->attrs).dim != 3)
      return std::nullopt;
    Attention found;
    found.sink = joined->operands[1];
    if (!take_scores(joined->operands[0], found)) {
      const Op* masked = made_by(joined->operands[0], OpKind::kAdd);
      if (masked == nullptr) return std::nullopt;
      const int side = take_scores(masked->operands[0], found) ? 0 : 1;
      if (side == 1 && !take_scores(masked->operands[1], found)) return std::nullopt;
      found.mask = masked->operands[1 - side];
    }
    found.v = unrepeated(op.operands[1]);
    return fits(found) ? std::optional<Attention>(found) : std::nullopt;
  }

  bool fits(const Attention& a) const {
    const DType dtype = from_.type(a.q).dtype;
    if (dtype == DType::kF64) return false;  // the kernels keep the statistics of queries in f32
    for (const ValueId v : {a.q, a.k, a.v, a.sink})
      if (from_.type(v).dtype != dtype || shape(v).size() != 4) return false;
    const Shape &q = shape(a.q), &k = shape(a.k);
    if (shape(a.v) != k || k[0] != q[0] || k[3] != q[3] || k[1] < 1 || q[1] % k[1] != 0 ||
        shape(a.sink) != Shape{q[0], q[1], q[2], 1})
      return false;
    if (!a.mask.valid()) return true;
    if (depends_on_trained(from_, a.mask)) return false;  // the operator has no derivative by it
    const Shape& mask = shape(a.mask);
    const Shape scores{q[0], q[1], q[2], k[2]};
    return from_.type(a.mask).dtype == dtype && !mask.empty() && mask.back() == k[2] &&
           ir::broadcast_shape(mask, scores) == scores;
  }

  void put(const Attention& a, OpId id, ir::Graph& to, ir::CopyGraph& copy) const {
    const Shape& q = shape(a.q);
    ValueId mask = copy.moved(a.mask);
    if (mask.valid()) {
      Shape of_scores = shape(a.mask);
      of_scores.insert(of_scores.begin(), 4 - of_scores.size(), 1);
      ir::GraphBuilder b(to, copy.moved_scope(from_.op(id).scope), from_.op(id).prov);
      mask = b.reshape(mask, std::move(of_scores));
    }
    ir::SdpaAttrs attrs;
    attrs.scale = a.scale;
    copy.append_like(id, OpKind::kSdpa, attrs,
                     {copy.moved(a.q), copy.moved(a.k), copy.moved(a.v), mask, copy.moved(a.sink)},
                     {ir::TensorType{DType::kF32, {q[0], q[1], q[2]}}});
  }

  const ir::Graph& from_;
};

}  // namespace

ir::Graph recognise_attention_sinks(ir::Graph graph) {
  const SinkRecogniser recogniser(graph);
  const auto found = recogniser.find();
  return found.empty() ? std::move(graph) : recogniser.copy(found);
}

}  // namespace piper::frontend
