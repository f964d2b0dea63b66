// Discrete Fourier transforms, as products with matrices of cosines and sines.
#include <cmath>
#include <numbers>

#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

// f32 [to, from] of factor(k) cos or sin(2 pi j k / length), k counting those of the operand.
ValueId waves(NodeImport& n, int64_t to, int64_t from, int64_t length, bool sines, bool of_half) {
  std::vector<float> all;
  for (int64_t j = 0; j < to; ++j)
    for (int64_t k = 0; k < from; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % length) / static_cast<double>(length);
      const double twice = of_half && k > 0 && 2 * k != length ? 2 : 1;  // for the half that is not there
      all.push_back(static_cast<float>(twice * (sines ? std::sin(angle) : std::cos(angle))));
    }
  return n.constant_f32({to, from}, all);
}

// Elements beyond those of the transform are left out, missing ones are zero.
ValueId of_length(NodeImport& n, ValueId x, int64_t axis, int64_t length) {
  ir::PadAttrs attrs{std::vector<int64_t>(static_cast<size_t>(n.rank(x)), 0), {}, 0};
  attrs.high = attrs.low;
  attrs.high[static_cast<size_t>(axis)] = length - n.shape(x)[static_cast<size_t>(axis)];
  return attrs.high[static_cast<size_t>(axis)] == 0 ? x : n.emit(OpKind::kPad, {x}, std::move(attrs));
}

}  // namespace

// The last axis is the real part, or both. onesided: of real numbers half of the frequencies, and back.
void import_dft(NodeImport& n) {
  constexpr int64_t kMostPoints = 4096;
  const ValueId x = n.in(0);
  const int64_t rank = n.rank(x);
  const bool inverse = n.int_attr("inverse", 0) != 0, onesided = n.int_attr("onesided", 0) != 0;
  const int64_t raw = n.opset() < 20 ? n.int_attr("axis", 1) : n.has(2) ? n.one_int(n.in(2), "axis") : -2;
  const int64_t axis = n.axis(raw, rank);
  if (!n.ok()) return;
  const Extents shape = n.shape(x);
  const int64_t points = shape[static_cast<size_t>(axis)];
  if (!is_floating(n.dtype(x)) || axis == rank - 1 || (shape.back() != 1 && shape.back() != 2))
    return n.refuse("it wants real numbers, or pairs of them, along the last axis");
  const bool back = inverse && onesided;
  const int64_t length = n.has(1) ? n.one_int(n.in(1), "dft_length") : back ? 2 * (points - 1) : points;
  if (!n.ok()) return;
  if (length < 1 || length > kMostPoints)
    return n.refuse("it is supported for 1 to " + std::to_string(kMostPoints) + " points, not " +
                    std::to_string(length));
  const int64_t from = back ? length / 2 + 1 : length, to = onesided && !inverse ? length / 2 + 1 : length;
  const auto part = [&](int64_t i) {
    const ValueId one = n.reshape(n.slice(x, rank - 1, i, i + 1), {shape.begin(), shape.end() - 1});
    return n.call("aten.transpose.int", {of_length(n, one, axis, from), axis, -1});
  };
  const ValueId cosines = n.cast(waves(n, to, from, length, false, back), n.dtype(x)),
                sines = n.cast(waves(n, to, from, length, true, back), n.dtype(x));
  const auto times = [&](ValueId v, ValueId matrix) { return n.emit(OpKind::kLinear, {v, matrix}); };
  const ValueId re = part(0), im = shape.back() == 2 ? part(1) : ValueId();
  // e^(-i a) of the transform, e^(i a) of its inverse.
  ValueId real = times(re, cosines), other;
  if (im.valid()) real = n.emit(inverse ? OpKind::kSub : OpKind::kAdd, {real, times(im, sines)});
  if (!back) {
    other = times(re, sines);
    if (!inverse) other = n.emit(OpKind::kNeg, {other});
    if (im.valid()) other = n.emit(OpKind::kAdd, {times(im, cosines), other});
  }
  const auto finished = [&](ValueId v) {
    if (inverse) v = n.emit(OpKind::kDiv, {v, n.scalar_like(static_cast<double>(length), v)});
    return n.unsqueeze(n.call("aten.transpose.int", {v, axis, -1}), -1);
  };
  if (back) return n.set_all({finished(real)});
  n.result(OpKind::kCat, {finished(real), finished(other)}, ir::DimAttrs{rank - 1});
}

}  // namespace piper::frontend::onnx
