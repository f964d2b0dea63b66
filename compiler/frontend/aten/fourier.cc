// Discrete Fourier transforms: a transform of n points along an axis is a product with the constant matrices of
// cos(2 pi j k / n) and sin(2 pi j k / n). That takes n multiplications for each point, no more than the linear layers
// of a model that mixes tokens so: n is a sequence or a width there. A part of a result that nothing reads is removed
// when the graph is folded.
#include "compiler/frontend/aten/fourier.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kMostPoints = 4096;  // 64 MiB a matrix

struct Complex {
  ValueId real, imaginary;  // no imaginary part: an invalid id
};

Item listed(const Complex& z) {
  return Item::of_list({made(z.real), z.imaginary.valid() ? made(z.imaginary) : Item::none()});
}
ValueId imaginary_part(Call& c, const Complex& z) {
  return z.imaginary.valid() ? z.imaginary : c.filled(c.shape(z.real), 0, c.dtype(z.real));
}

// `self` as a complex number of f32 parts.
Complex complex_argument(Call& c) {
  const Item& x = c.arg("self");
  if (x.is_list() && x.list.size() == 2 && x.list[0].is_tensor()) return {x.list[0].tensor, x.list[1].tensor};
  const ValueId v = c.tensor("self");
  if (c.dtype(v) != DType::kF32) c.fail("complex numbers are supported with parts of float32");
  return {v, ValueId()};
}

enum class Wave : uint8_t { kCosine, kSine };

// f32 [n, n], symmetric; one for all transforms of a model. The angle is reduced in integers, so that large products
// j k lose no digits.
ValueId waves(Call& c, int64_t n, Wave wave) {
  const auto [known, fresh] = c.state().waves.try_emplace({n, wave == Wave::kSine});
  if (!fresh) return known->second;
  std::vector<float> elements(static_cast<size_t>(n * n));
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = 0; k < n; ++k) {
      const double angle = 2 * kPi * static_cast<double>(j * k % n) / static_cast<double>(n);
      elements[static_cast<size_t>(j * n + k)] =
          static_cast<float>(wave == Wave::kCosine ? std::cos(angle) : std::sin(angle));
    }
  std::vector<std::byte> bytes(elements.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  const auto data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return known->second = c.constant({{DType::kF32, {n, n}}, data});
}

// x with its axis d multiplied by a symmetric matrix.
ValueId along(Call& c, ValueId x, int64_t d, ValueId matrix) {
  return c.transpose(c.op(OpKind::kMatmul, {c.transpose(x, d, -1), matrix}), d, -1);
}

// exp(-i a) = cos a - i sin a forward, its conjugate back; (re + i im) times that.
Complex transformed(Call& c, const Complex& z, int64_t d, bool forward) {
  const int64_t n = c.extent(z.real, d);
  if (n < 1 || n > kMostPoints) {
    c.fail("a Fourier transform of " + std::to_string(n) + " points: 1 to " + std::to_string(kMostPoints) +
           " are supported, as a product with a matrix");
    return z;
  }
  const ValueId cosine = waves(c, n, Wave::kCosine), sine = waves(c, n, Wave::kSine);
  const ValueId re = along(c, z.real, d, cosine);
  const ValueId turned = along(c, z.real, d, sine);  // of the imaginary part, for exp(+i a)
  if (!z.imaginary.valid()) return {re, forward ? c.op(OpKind::kNeg, {turned}) : turned};
  const ValueId crossed = along(c, z.imaginary, d, sine), im = along(c, z.imaginary, d, cosine);
  return forward ? Complex{c.binary(OpKind::kAdd, re, crossed), c.binary(OpKind::kSub, im, turned)}
                 : Complex{c.binary(OpKind::kSub, re, crossed), c.binary(OpKind::kAdd, im, turned)};
}

enum class Scale : uint8_t { kNone, kRoot, kPoints };  // ATen's fft_norm_mode: by nothing, 1/sqrt(n), 1/n

Item transform(Call& c, const std::vector<int64_t>& dims, bool forward, Scale scale) {
  Complex z = complex_argument(c);
  double points = 1;
  for (auto d = dims.rbegin(); d != dims.rend() && c.status().ok(); ++d) {
    points *= static_cast<double>(c.extent(z.real, *d));
    z = transformed(c, z, *d, forward);
  }
  if (!c.status().ok()) return Item::none();
  if (scale != Scale::kNone && z.imaginary.valid()) {
    const double factor = scale == Scale::kRoot ? 1 / std::sqrt(points) : 1 / points;
    z = {c.binary(OpKind::kMul, z.real, factor), c.binary(OpKind::kMul, z.imaginary, factor)};
  }
  return listed(z);
}

// What the word of torch.fft divides a forward transform by; "backward" divides the inverse alone.
Scale scale_of_word(Call& c) {
  const std::string word = c.has("norm") ? c.text("norm") : "backward";
  if (word == "ortho") return Scale::kRoot;
  if (word == "forward") return Scale::kPoints;
  if (word != "backward") c.fail("no such normalisation: '" + word + "'");
  return Scale::kNone;
}

size_t axes_of(Call& c) { return c.shape(complex_argument(c).real).size(); }

}  // namespace

Item fft(Call& c) {
  if (c.has("n")) return c.fail("fft is supported for all points of the axis, without 'n'");
  return transform(c, {c.dim("dim", axes_of(c))}, true, scale_of_word(c));
}
Item fft_of_axes(Call& c) {
  if (c.has("s")) return c.fail("a Fourier transform is supported for all points of its axes, without 's'");
  return transform(c, c.dims("dim", axes_of(c)), true, scale_of_word(c));
}
// How the calls above are written after a decomposition: the scale is a number, and the operand complex already.
Item fft_c2c(Call& c) {
  const int64_t scale = c.integer("normalization");
  if (scale < 0 || scale > 2) return c.fail("no such normalisation: " + std::to_string(scale));
  return transform(c, c.dims("dim", axes_of(c)), c.flag("forward"), static_cast<Scale>(scale));
}

Item complex_of_real(Call& c) { return listed({complex_argument(c).real, ValueId()}); }
Item real(Call& c) { return made(complex_argument(c).real); }
Item imag(Call& c) {
  if (!c.arg("self").is_list()) return c.fail("imag of a real tensor");
  return made(imaginary_part(c, complex_argument(c)));
}
Item view_as_real(Call& c) {
  if (!c.arg("self").is_list()) return c.fail("view_as_real of a real tensor");
  const Complex z = complex_argument(c);
  const int64_t last = c.rank(z.real);
  return made(c.cat({c.unsqueeze(z.real, last), c.unsqueeze(imaginary_part(c, z), last)}, last));
}

}  // namespace piper::frontend::aten
