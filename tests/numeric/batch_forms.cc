#include "tests/numeric/batch_forms.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/op_traits.h"

namespace piper::numeric {

using ir::AxisRule;
using ir::OpKind;
using ir::Shape;

namespace {

std::string text(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}
// The samples on no axis, on each alone, and as the inner and the outer factor of each.
std::vector<Operand> places_of(const Shape& shape, Content content, bool factors) {
  std::vector<Operand> out{{shape, {}, content}};
  for (size_t axis = 0; axis < shape.size(); ++axis)
    for (const auto& [outer, inner] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2)}) {
      if (!factors && outer * inner > 1) continue;
      Shape of_sample = shape;
      of_sample[axis] = outer * inner;
      out.push_back({of_sample, {static_cast<int64_t>(axis), outer, inner}, content});
    }
  return out;
}
std::vector<Operand> placed(const std::vector<Shape>& shapes, Content content = Content::kNumbers,
                            bool factors = true) {
  std::vector<Operand> out;
  for (const Shape& shape : shapes)
    for (Operand& operand : places_of(shape, content, factors)) out.push_back(std::move(operand));
  return out;
}
const Operand kAbsent{{}, {}, Content::kNumbers, true};

template <class T>
std::function<ir::Attrs(int64_t)> always(T attrs) {
  return [attrs](int64_t) { return ir::Attrs(attrs); };
}

class Forms {
 public:
  std::vector<BatchForm> make() {
    elements();
    broadcasts();
    views();
    along_axes();
    indices();
    products();
    factors();
    layers();
    return std::move(forms_);
  }

 private:
  using Attributes = std::function<ir::Attrs(int64_t)>;
  void add(OpKind kind, std::vector<Operand> operands, Attributes attrs, int64_t bound = 4) {
    const bool samples =
        std::any_of(operands.begin(), operands.end(), [](const Operand& x) { return x.place.axis >= 0; });
    if (samples) forms_.push_back({kind, std::move(operands), std::move(attrs), bound});
  }
  void product(OpKind kind, const std::vector<std::vector<Operand>>& choices, const Attributes& attrs,
               int64_t bound = 4, std::vector<Operand> chosen = {}) {
    if (chosen.size() == choices.size()) return add(kind, std::move(chosen), attrs, bound);
    for (const Operand& operand : choices[chosen.size()]) {
      std::vector<Operand> more = chosen;
      more.push_back(operand);
      product(kind, choices, attrs, bound, std::move(more));
    }
  }

  void elements() {
    for (const OpKind kind : kAllOps) {
      if (ir::axis_rule(kind) != AxisRule::kElement || kind == OpKind::kCopy) continue;
      ir::Attrs attrs = default_attrs(kind);
      if (auto* cast = std::get_if<ir::CastAttrs>(&attrs)) cast->to = DType::kI64;
      if (auto* clamp = std::get_if<ir::ClampAttrs>(&attrs)) *clamp = {-0.5, 0.5};
      if (auto* power = std::get_if<ir::ExponentAttrs>(&attrs)) power->exponent = 3;
      const Content content = kind == OpKind::kLogicalNot ? Content::kBools : Content::kPositive;
      for (const Operand& x : placed({{2, 3}}, content)) add(kind, {x}, always(attrs));
    }
    for (const Operand& x : placed({{2, 3}, {3, 2, 2}})) add(OpKind::kDropout, {x}, always(ir::DropoutAttrs{0.5, 7}));
  }
  void broadcasts() {
    const std::vector<Shape> all{{}, {3}, {1, 3}, {2, 3}, {2, 1, 3}}, some{{3}, {2, 3}};
    for (const OpKind kind : kAllOps) {
      if (ir::axis_rule(kind) != AxisRule::kBroadcast) continue;
      const bool logical = kind == OpKind::kLogicalAnd || kind == OpKind::kLogicalOr;
      const Content content = logical ? Content::kBools : Content::kPositive;
      if (kind == OpKind::kWhere)
        product(kind,
                {placed(some, Content::kBools, false), placed(some, content, false), placed(some, content, false)},
                always(ir::NoAttrs{}));
      else if (kind == OpKind::kSub || kind == OpKind::kMul)
        product(kind, {placed(all, content), placed(all, content)}, always(ir::NoAttrs{}));
      else product(kind, {placed(some, content), placed(some, content)}, always(ir::NoAttrs{}));
    }
    product(OpKind::kRotary, {placed({{2, 3, 4}, {3, 2, 2, 4}}), placed({{3, 4}, {2, 4}}), placed({{3, 4}, {2, 4}})},
            always(ir::NoAttrs{}));
  }

  static void factorise(int64_t elements, size_t axes, Shape& so_far, std::vector<Shape>& out) {
    if (so_far.size() + 1 == axes) {
      out.push_back(so_far);
      out.back().push_back(elements);
      return;
    }
    for (int64_t f = 1; f <= elements; ++f) {
      if (elements % f != 0) continue;
      so_far.push_back(f);
      factorise(elements / f, axes, so_far, out);
      so_far.pop_back();
    }
  }
  void views() {
    for (const Operand& x : placed({{6}, {2, 3}, {2, 3, 2}})) {
      if (x.place.axis < 0) continue;
      std::vector<Shape> shapes;
      for (size_t axes : {1, 2, 3}) {
        Shape so_far;
        factorise(ir::elements(x.shape, 0, x.shape.size()), axes, so_far, shapes);
      }
      for (const Shape& shape : shapes)
        for (size_t axis = 0; axis < shape.size(); ++axis)
          add(OpKind::kReshape, {x}, [=](int64_t n) {
            Shape to = shape;
            to[axis] *= n;
            return ir::Attrs(ir::ReshapeAttrs{to});
          });
    }
    for (const Operand& x : placed({{2, 3, 2}})) {
      Shape dims{0, 1, 2};
      do add(OpKind::kPermute, {x}, always(ir::PermuteAttrs{dims}));
      while (std::next_permutation(dims.begin(), dims.end()));
      for (int64_t dim : {0, 1, 2}) {
        for (const auto& [start, end] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2), std::pair(0, 3)})
          add(OpKind::kSlice, {x}, always(ir::SliceAttrs{dim, start, end, 1}));
        const auto extent = [x, dim = static_cast<size_t>(dim)](int64_t n) { return x.at(n)[dim]; };
        for (int64_t step : {1, 2})
          add(OpKind::kSlice, {x}, [=](int64_t n) { return ir::Attrs(ir::SliceAttrs{dim, 0, extent(n), step}); });
        add(OpKind::kSlice, {x}, [=](int64_t n) { return ir::Attrs(ir::SliceAttrs{dim, 1, extent(n), 1}); });
        for (const auto& [low, high] : {std::pair(0, 0), std::pair(1, 0), std::pair(0, 2), std::pair(-1, 1)}) {
          ir::PadAttrs pad{{0, 0, 0}, {0, 0, 0}, 0.5};
          pad.low[static_cast<size_t>(dim)] = low;
          pad.high[static_cast<size_t>(dim)] = high;
          add(OpKind::kPad, {x}, always(pad));
        }
      }
    }
    for (const Operand& x : placed({{1, 3}, {2, 1}, {3}}))
      for (const Shape& to : {Shape{2, 3}, Shape{2, 2, 3}, Shape{2, 1, 3}, Shape{3, 2, 1}})
        for (int64_t samples : {-1, 0, 1, 2})
          for (bool grows : {false, true})
            add(OpKind::kExpand, {x}, [=](int64_t n) {
              // The axis of the samples of x, from the end; and one that is repeated for each.
              ir::ExpandAttrs attrs{to, samples < static_cast<int64_t>(to.size()) ? samples : -1};
              if (x.place.axis >= 0) {
                const size_t axis = to.size() - x.shape.size() + static_cast<size_t>(x.place.axis);
                if (axis < to.size()) attrs.shape[axis] = x.at(n)[static_cast<size_t>(x.place.axis)];
              }
              if (attrs.samples >= 0 && grows) attrs.shape[static_cast<size_t>(attrs.samples)] *= n;
              return ir::Attrs(attrs);
            });
    // A parameter that is repeated for each sample.
    for (const Shape& from : {Shape{3}, Shape{1, 3}})
      for (int64_t each : {1, 2})
        forms_.push_back(
            {OpKind::kExpand, {{from}}, [=](int64_t n) { return ir::Attrs(ir::ExpandAttrs{{each * n, 3}, 0}); }});
    product(OpKind::kCat, {placed({{2, 3}}), placed({{2, 3}, {1, 3}})}, always(ir::DimAttrs{0}));
    product(OpKind::kCat, {placed({{2, 3}}), placed({{2, 3}, {2, 1}})}, always(ir::DimAttrs{1}));
  }

  void along_axes() {
    for (const Operand& x : placed({{2, 3, 2}})) {
      for (OpKind kind : {OpKind::kSum, OpKind::kMean, OpKind::kAmax})
        for (bool keepdim : {false, true})
          for (const Shape& dims : {Shape{}, {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}})
            add(kind, {x}, always(ir::ReduceAttrs{dims, keepdim}));
      for (int64_t dim : {0, 1, 2}) {
        add(OpKind::kMaxDim, {x}, always(ir::TopkAttrs{dim, 1}));
        add(OpKind::kTopk, {x}, always(ir::TopkAttrs{dim, 2}));
        for (OpKind kind : {OpKind::kCumsum, OpKind::kSoftmax, OpKind::kLogSoftmax})
          add(kind, {x}, always(ir::DimAttrs{dim}));
      }
    }
  }

  void indices() {
    const auto of = [](const std::vector<Shape>& shapes) { return placed(shapes, Content::kIndices); };
    for (bool by_frequency : {false, true})
      for (int64_t padding : {-1, 1})
        product(OpKind::kEmbedding, {placed({{4, 3}}), of({{2}, {3}, {2, 3}})},
                always(ir::EmbeddingAttrs{padding, by_frequency}), 1);
    for (const Operand& index : of({{5}, {5, 3}}))
      for (bool by_frequency : {false, true})
        add(OpKind::kEmbedding, {{{4, 3}}, index}, always(ir::EmbeddingAttrs{-1, by_frequency}), 4);
    for (int64_t dim : {0, 1}) {
      product(OpKind::kGather, {placed({{3, 4}}), of({{3, 4}, {2, 4}})}, always(ir::DimAttrs{dim}), 1);
      product(OpKind::kGather, {{{{3, 4}}}, of({{3, 4}})}, always(ir::DimAttrs{dim}), 3);
      for (OpKind kind : {OpKind::kScatter, OpKind::kScatterAdd})
        product(kind, {placed({{3, 4}}), of({{3, 4}, {2, 4}}), placed({{3, 4}, {2, 4}})}, always(ir::DimAttrs{dim}), 1);
      product(OpKind::kIndexSelect, {placed({{3, 4}}), of({{2}})}, always(ir::DimAttrs{dim}), 1);
      product(OpKind::kIndexSelect, {{{{3, 4}}}, of({{4}})}, always(ir::DimAttrs{dim}), 3);
      product(OpKind::kIndexAdd, {placed({{3, 4}}), of({{2}}), placed({{2, 4}, {3, 2}})}, always(ir::DimAttrs{dim}), 1);
    }
  }

  void products() {
    product(OpKind::kMatmul, {placed({{2, 3}, {3, 2, 3}, {1, 2, 3}}), placed({{3, 2}, {3, 3, 2}, {1, 3, 2}})},
            always(ir::NoAttrs{}));
    std::vector<Operand> bias = placed({{2}});
    bias.push_back(kAbsent);
    product(OpKind::kLinear, {placed({{4, 3}, {2, 4, 3}}), placed({{2, 3}}), bias}, always(ir::NoAttrs{}));
    std::vector<Operand> channels = placed({{4}});
    channels.push_back(kAbsent);
    product(OpKind::kConvolution, {placed({{2, 3, 5}}), placed({{4, 3, 2}}), channels},
            always(ir::ConvolutionAttrs{{1}, {1}, {1}, 1}));
    for (const Operand& x : placed({{2, 2, 4, 5}}))
      add(OpKind::kConvolution, {x, {{3, 2, 2, 2}}, kAbsent}, always(ir::ConvolutionAttrs{{1, 2}, {0, 1}, {1, 1}, 1}));
    for (const Operand& mask :
         {kAbsent, Operand{{3, 3}, {}, Content::kBools}, Operand{{2, 1, 3, 3}, {}, Content::kBools},
          Operand{{1, 1, 3, 3}, {0}, Content::kBools}, Operand{{1, 2, 3, 3}, {0}, Content::kBools},
          Operand{{1, 1, 1, 3}, {2}, Content::kBools}})
      product(OpKind::kSdpa,
              {placed({{2, 2, 3, 4}}, Content::kNumbers, false),
               placed({{2, 2, 3, 4}}, Content::kNumbers, false),
               placed({{2, 2, 3, 4}}, Content::kNumbers, false),
               {mask}},
              always(ir::SdpaAttrs{false, 0.5}));
    // The vectors of a predicate, of every sample, of each, or along another axis.
    for (const Operand& vectors :
         {Operand{{1, 1, 2, 3}, {}, Content::kIndices}, Operand{{2, 1, 2, 3}, {0}, Content::kIndices},
          Operand{{1, 1, 2, 3}, {2}, Content::kIndices}})
      product(OpKind::kSdpa,
              {placed({{2, 2, 3, 4}}, Content::kNumbers, false),
               placed({{2, 2, 3, 4}}, Content::kNumbers, false),
               placed({{2, 2, 3, 4}}, Content::kNumbers, false),
               {vectors}},
              always(ir::SdpaAttrs{false, 0.5, "q - k >= 0 & r0[q] - r1[k] = 0"}), 3);
  }

  void factors() {
    const std::vector<Operand> squares = placed({{2, 3, 3}, {3, 3}}), tall = placed({{2, 4, 3}});
    for (const Operand& x : squares) {
      add(OpKind::kCholesky, {x}, always(ir::CheckAttrs{false}));
      add(OpKind::kLuFactor, {x}, always(ir::CheckAttrs{false}));
      add(OpKind::kSvd, {x}, always(ir::SvdAttrs{}));
      add(OpKind::kPinv, {x}, always(ir::PinvAttrs{0, 1e-5, false}));
      for (const OpKind kind : {OpKind::kDet, OpKind::kSlogdet, OpKind::kQr, OpKind::kEigh, OpKind::kMatrixExp})
        add(kind, {x}, always(ir::NoAttrs{}));
    }
    for (const Operand& x : tall) {
      add(OpKind::kQr, {x}, always(ir::NoAttrs{}));
      add(OpKind::kSvd, {x}, always(ir::SvdAttrs{true}));
    }
    for (const Operand& x : placed({{2, 3, 1}, {3, 1}}, Content::kIndices))
      add(OpKind::kPermutation, {x}, always(ir::RowsAttrs{4}));
    const std::vector<Operand> right = placed({{2, 3, 2}, {3, 2}});
    product(OpKind::kTriangularSolve, {squares, right}, always(ir::TriangularAttrs{}));
    product(OpKind::kSolve, {squares, right}, always(ir::CheckAttrs{false}));
  }

  void layers() {
    std::vector<Operand> weight = placed({{4}});
    weight.push_back(kAbsent);
    for (const Operand& x : placed({{2, 3, 4}}))
      for (const Operand& w : weight) {
        add(OpKind::kLayerNorm, {x, w, w}, always(ir::LayerNormAttrs{1}));
        add(OpKind::kRmsNorm, {x, w}, always(ir::LayerNormAttrs{1}));
        add(OpKind::kGroupNorm, {x, kAbsent, kAbsent}, always(ir::GroupNormAttrs{1}));
        add(OpKind::kBatchNorm, {x, kAbsent, kAbsent, kAbsent, kAbsent}, always(ir::BatchNormAttrs{}));
      }
    for (const Operand& x : placed({{2, 3, 4}})) {
      add(OpKind::kLayerNorm, {x, kAbsent, kAbsent}, always(ir::LayerNormAttrs{2}));
      add(OpKind::kRmsNorm, {x, kAbsent}, always(ir::LayerNormAttrs{2}));
    }
    for (const Operand& x : placed({{2, 4, 3}})) {
      add(OpKind::kGroupNorm, {x, {{4}}, {{4}}}, always(ir::GroupNormAttrs{2}));
      add(OpKind::kBatchNorm, {x, {{4}}, {{4}}, kAbsent, kAbsent}, always(ir::BatchNormAttrs{}));
    }
    for (const Operand& x : placed({{2, 2, 4, 4}}))
      for (OpKind kind : {OpKind::kMaxPool2d, OpKind::kAvgPool2d})
        add(kind, {x}, always(ir::PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}, false}));
  }

  std::vector<BatchForm> forms_;
};

}  // namespace

std::string text(const BatchForm& form) {
  std::string out = std::string(ir::op_name(form.kind)) + "(";
  for (const Operand& x : form.operands) {
    if (x.absent) {
      out += " -";
      continue;
    }
    out += " " + text(x.shape);
    if (x.place.axis >= 0)
      out += "@" + std::to_string(x.place.axis) + ":" + std::to_string(x.place.outer) + "x" +
             std::to_string(x.place.inner);
  }
  return out + " )";
}

std::vector<BatchForm> batch_forms() { return Forms().make(); }

}  // namespace piper::numeric
