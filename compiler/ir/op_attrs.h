// Attributes of the operators: one struct per shape of attributes, with one reflection hook,
// `fields`, that the printer, the parser, equality and the plan emitter share. `fields(v)` calls
// `v("name", member)` for each member in a fixed order; members are int64_t, double, bool,
// std::string, DType, std::vector<int64_t> or ValueId. Formulas are in ops.def.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "compiler/ir/ids.h"
#include "schemas/plan/dtype.h"

#define PIPER_FIELDS(...)                 \
  template <class Self, class V>          \
  static void fields(Self& self, V&& v) { \
    __VA_ARGS__                           \
  }
#define PIPER_FIELD(name) v(#name, self.name);
// Written only where it is another value.
#define PIPER_FIELD_UNLESS(name, value) \
  if (!std::is_const_v<Self> || self.name != (value)) v(#name, self.name);

namespace piper::ir {

struct NoAttrs {
  template <class Self, class V>
  static void fields(Self&, V&&) {}
};
struct ReshapeAttrs {
  std::vector<int64_t> shape;
  PIPER_FIELDS(PIPER_FIELD(shape))
};
struct PermuteAttrs {
  std::vector<int64_t> dims;
  PIPER_FIELDS(PIPER_FIELD(dims))
};
struct ExpandAttrs {
  std::vector<int64_t> shape;
  int64_t samples = -1;  // the axis that is the batch, though what is repeated has no samples; -1: none is
  template <class Self, class V>
  static void fields(Self& self, V&& v) {
    v("shape", self.shape);
    if (!std::is_const_v<Self> || self.samples >= 0) v("samples", self.samples);
  }
};
struct SliceAttrs {
  int64_t dim = 0, start = 0, end = 0, step = 1;
  PIPER_FIELDS(PIPER_FIELD(dim) PIPER_FIELD(start) PIPER_FIELD(end) PIPER_FIELD(step))
};
struct SliceBackwardAttrs {
  std::vector<int64_t> shape;
  int64_t dim = 0, start = 0, end = 0, step = 1;
  PIPER_FIELDS(PIPER_FIELD(shape) PIPER_FIELD(dim) PIPER_FIELD(start) PIPER_FIELD(end) PIPER_FIELD(step))
};
struct CastAttrs {
  DType to = DType::kF32;
  PIPER_FIELDS(PIPER_FIELD(to))
};
struct SlopeAttrs {
  double slope = 0.01;
  PIPER_FIELDS(PIPER_FIELD(slope))
};
struct GeluAttrs {
  std::string approximate = "none";  // "none" (erf) or "tanh"
  PIPER_FIELDS(PIPER_FIELD(approximate))
};
struct ExponentAttrs {
  double exponent = 1;
  PIPER_FIELDS(PIPER_FIELD(exponent))
};
struct PolygammaAttrs {
  int64_t n = 1;
  PIPER_FIELDS(PIPER_FIELD(n))
};
// Whether a matrix that has no such factors, or no inverse, ends the run; else its results are not numbers.
struct CheckAttrs {
  bool check = true;
  PIPER_FIELDS(PIPER_FIELD(check))
};
struct TriangularAttrs {
  bool upper = false, unitriangular = false;  // with ones on the diagonal, whatever there is
  PIPER_FIELDS(PIPER_FIELD(upper) PIPER_FIELD(unitriangular))
};
struct SvdAttrs {
  bool full = false;  // square matrices of singular vectors
  PIPER_FIELDS(PIPER_FIELD(full))
};
// Singular values of at most max(atol, rtol x the largest) count as zero.
struct PinvAttrs {
  double atol = 0, rtol = 0;
  bool hermitian = false;
  PIPER_FIELDS(PIPER_FIELD(atol) PIPER_FIELD(rtol) PIPER_FIELD(hermitian))
};
struct ClampAttrs {
  double min = 0, max = 0;  // -inf / +inf where unbounded
  PIPER_FIELDS(PIPER_FIELD(min) PIPER_FIELD(max))
};
struct ReduceAttrs {
  std::vector<int64_t> dims;  // sorted, non-negative
  bool keepdim = false;
  PIPER_FIELDS(PIPER_FIELD(dims) PIPER_FIELD(keepdim))
};
struct DimAttrs {
  int64_t dim = 0;  // non-negative
  PIPER_FIELDS(PIPER_FIELD(dim))
};
struct PartsAttrs {
  int64_t parts = 1, cut = 0;  // places of a cut: index into Distribution::cuts
  PIPER_FIELDS(PIPER_FIELD(parts) PIPER_FIELD(cut))
};
struct ExchangeAttrs {
  int64_t across = -1;  // among ranks at several places of this cut, each with rows of its own; -1: of one place each
  PIPER_FIELDS(PIPER_FIELD_UNLESS(across, -1))
};
struct TopkAttrs {
  int64_t dim = 0, k = 1;
  PIPER_FIELDS(PIPER_FIELD(dim) PIPER_FIELD(k))
};
// `whole`, of these and of losses: rows of a table, or classes, of all places together, where the operand `place` says
// which part is here: rows from place x (those of a part) on, and no more than there are of the whole. 0: all is here.
struct EmbeddingAttrs {
  int64_t padding_idx = -1;  // -1: none; else that row, of the whole, gets no gradient
  bool scale_grad_by_freq = false;
  int64_t whole = 0;
  PIPER_FIELDS(PIPER_FIELD(padding_idx) PIPER_FIELD(scale_grad_by_freq) PIPER_FIELD_UNLESS(whole, 0))
};
struct EmbeddingBackwardAttrs {
  std::vector<int64_t> shape;
  int64_t padding_idx = -1;
  bool scale_grad_by_freq = false;
  int64_t whole = 0;
  PIPER_FIELDS(PIPER_FIELD(shape) PIPER_FIELD(padding_idx) PIPER_FIELD(scale_grad_by_freq) PIPER_FIELD_UNLESS(whole, 0))
};
struct PadAttrs {
  std::vector<int64_t> low, high;  // one per axis
  double value = 0;
  PIPER_FIELDS(PIPER_FIELD(low) PIPER_FIELD(high) PIPER_FIELD(value))
};
struct ConvolutionAttrs {  // one entry per spatial axis
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  PIPER_FIELDS(PIPER_FIELD(stride) PIPER_FIELD(padding) PIPER_FIELD(dilation) PIPER_FIELD(groups))
};
struct ConvolutionBackwardAttrs {
  std::vector<int64_t> shape, stride, padding, dilation;
  int64_t groups = 1;
  PIPER_FIELDS(PIPER_FIELD(shape) PIPER_FIELD(stride) PIPER_FIELD(padding) PIPER_FIELD(dilation) PIPER_FIELD(groups))
};
struct LayerNormAttrs {
  int64_t axes = 1;  // number of trailing axes that are normalised
  double eps = 1e-5;
  PIPER_FIELDS(PIPER_FIELD(axes) PIPER_FIELD(eps))
};
struct GroupNormAttrs {
  int64_t groups = 1;
  double eps = 1e-5;
  PIPER_FIELDS(PIPER_FIELD(groups) PIPER_FIELD(eps))
};
struct BatchNormAttrs {
  double momentum = 0.1, eps = 1e-5;
  PIPER_FIELDS(PIPER_FIELD(momentum) PIPER_FIELD(eps))
};
struct PoolAttrs {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil_mode = false;
  PIPER_FIELDS(PIPER_FIELD(kernel) PIPER_FIELD(stride) PIPER_FIELD(padding) PIPER_FIELD(dilation)
                   PIPER_FIELD(ceil_mode))
};
struct PoolBackwardAttrs {
  std::vector<int64_t> shape, kernel, stride, padding, dilation;
  bool ceil_mode = false;
  PIPER_FIELDS(PIPER_FIELD(shape) PIPER_FIELD(kernel) PIPER_FIELD(stride) PIPER_FIELD(padding) PIPER_FIELD(dilation)
                   PIPER_FIELD(ceil_mode))
};
struct SdpaAttrs {
  bool is_causal = false;  // lower triangle of [S, T], aligned at the top left as in PyTorch
  double scale = 1;        // always explicit
  // Where a query attends to a key (schemas/forms/attends.h); the mask operand then holds the vectors that it reads.
  // Empty: the mask operand says it.
  std::string attends;
  template <class Self, class V>
  static void fields(Self& self, V&& v) {
    v("is_causal", self.is_causal);
    v("scale", self.scale);
    if (!std::is_const_v<Self> || !self.attends.empty()) v("attends", self.attends);
  }
};
// A tensor of outer x batch x inner elements (row-major), batch = samples of the piece. The mask of
// sample n is a function of (seed, step, key, sample_offset + n, outer_index * inner + inner_index).
struct DropoutAttrs {
  double p = 0;
  int64_t key = 0;  // xxh64 of "module path/ordinal", reinterpreted as signed
  int64_t outer = 1, batch = 1, inner = 1;
  // For a part of a tensor: so many places have one, and `row` elements of a sample in a row. Element e of a sample is
  // then element (e / row * places + place) * row + e % row of the sample in the whole.
  int64_t places = 1, row = 0;
  PIPER_FIELDS(PIPER_FIELD(p) PIPER_FIELD(key) PIPER_FIELD(outer) PIPER_FIELD(batch) PIPER_FIELD(inner)
                   PIPER_FIELD_UNLESS(places, 1) PIPER_FIELD_UNLESS(row, 0))
};
struct CrossEntropyAttrs {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  int64_t whole = 0;
  PIPER_FIELDS(PIPER_FIELD(ignore_index) PIPER_FIELD(label_smoothing) PIPER_FIELD_UNLESS(whole, 0))
};
struct LinearCrossEntropyAttrs {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  DType logits = DType::kF32;
  int64_t blocks = 1;
  PIPER_FIELDS(PIPER_FIELD(ignore_index) PIPER_FIELD(label_smoothing) PIPER_FIELD(logits) PIPER_FIELD(blocks))
};
struct RowLseAttrs {
  int64_t ignore_index = -100;
  int64_t whole = 0;
  int64_t places = 1;
  PIPER_FIELDS(PIPER_FIELD(ignore_index) PIPER_FIELD(whole) PIPER_FIELD(places))
};
struct CrossEntropyLossAttrs {
  std::string reduction = "mean";
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  PIPER_FIELDS(PIPER_FIELD(reduction) PIPER_FIELD(ignore_index) PIPER_FIELD(label_smoothing))
};
struct NllBackwardAttrs {
  std::vector<int64_t> shape;
  int64_t ignore_index = -100;
  PIPER_FIELDS(PIPER_FIELD(shape) PIPER_FIELD(ignore_index))
};
struct ReductionAttrs {
  std::string reduction = "mean";
  PIPER_FIELDS(PIPER_FIELD(reduction))
};
struct ExpertOrderAttrs {
  int64_t experts = 1;
  int64_t segments = 1;  // the experts are cut into as many equal runs, one for each segment of the rows
  int64_t capacity = 1;  // rows that one expert takes at most, the first ones
  bool strict = false;   // a row past the capacity is an error of the run
  // Rows of a segment: what its experts can be asked for, of `rows` rows in all.
  int64_t segment_rows(int64_t rows) const {
    return capacity >= rows ? rows : std::min(rows, capacity * (experts / segments));
  }
  PIPER_FIELDS(PIPER_FIELD(experts) PIPER_FIELD(segments) PIPER_FIELD(capacity) PIPER_FIELD(strict))
};
struct TakeRowsAttrs {
  int64_t repeat = 1;  // so many consecutive indices mean one row of x
  PIPER_FIELDS(PIPER_FIELD(repeat))
};
struct GroupedMatmulAttrs {
  bool transposed = false;
  PIPER_FIELDS(PIPER_FIELD(transposed))
};
struct RowsAttrs {
  int64_t rows = 0;
  PIPER_FIELDS(PIPER_FIELD(rows))
};
struct AccumulateGradAttrs {
  ValueId parameter;
  PIPER_FIELDS(PIPER_FIELD(parameter))
};
struct FillAttrs {
  std::vector<int64_t> shape;
  double value = 0;
  DType to = DType::kF32;
  PIPER_FIELDS(PIPER_FIELD(shape) PIPER_FIELD(value) PIPER_FIELD(to))
};

using Attrs = std::variant<NoAttrs, ReshapeAttrs, PermuteAttrs, ExpandAttrs, SliceAttrs, SliceBackwardAttrs, CastAttrs,
                           SlopeAttrs, GeluAttrs, ExponentAttrs, ClampAttrs, ReduceAttrs, DimAttrs, TopkAttrs,
                           EmbeddingAttrs, EmbeddingBackwardAttrs, PadAttrs, ConvolutionAttrs, ConvolutionBackwardAttrs,
                           LayerNormAttrs, GroupNormAttrs, BatchNormAttrs, PoolAttrs, PoolBackwardAttrs, SdpaAttrs,
                           DropoutAttrs, CrossEntropyAttrs, LinearCrossEntropyAttrs, RowLseAttrs, CrossEntropyLossAttrs,
                           NllBackwardAttrs, ReductionAttrs, AccumulateGradAttrs, FillAttrs, PartsAttrs, ExchangeAttrs,
                           ExpertOrderAttrs, TakeRowsAttrs, GroupedMatmulAttrs, RowsAttrs, PolygammaAttrs, CheckAttrs,
                           TriangularAttrs, SvdAttrs, PinvAttrs>;

}  // namespace piper::ir
