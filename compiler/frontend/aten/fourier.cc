// Discrete Fourier transforms: a transform of n points along an axis is a product with the constant matrices of
// cos(2 pi j k / n) and sin(2 pi j k / n). That takes n multiplications for each point, no more than the linear layers
// of a model that mixes tokens so: n is a sequence or a width there. A part of a result that nothing reads is removed
// when the graph is folded.
#include "compiler/frontend/aten/fourier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "compiler/frontend/aten/table.h"
#include "compiler/ir/shapes.h"

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

// An argument as a complex number of f32 parts.
Complex complex_argument(Call& c, std::string_view name = "self") {
  const Item& x = c.arg(name);
  if (is_complex(x)) return {x.list[0].tensor, x.list[1].tensor};
  const ValueId v = c.tensor(name);
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

// x with its axis d multiplied by a matrix.
ValueId along(Call& c, ValueId x, int64_t d, ValueId matrix) {
  if (c.rank(x) == 1) return c.squeeze(c.op(OpKind::kMatmul, {c.unsqueeze(x, 0), matrix}), 0);
  return c.transpose(c.op(OpKind::kMatmul, {c.transpose(x, d, -1), matrix}), d, -1);
}

bool has_points(Call& c, int64_t n) {
  if (n >= 1 && n <= kMostPoints) return true;
  c.fail("a Fourier transform of " + std::to_string(n) + " points: 1 to " + std::to_string(kMostPoints) +
         " are supported, as a product with a matrix");
  return false;
}

// exp(-i a) = cos a - i sin a forward, its conjugate back; (re + i im) times that. `kept`: the first frequencies alone.
Complex transformed(Call& c, const Complex& z, int64_t d, bool forward, int64_t kept) {
  const int64_t n = c.extent(z.real, d);
  if (!has_points(c, n)) return z;
  const ValueId cosine = c.slice(waves(c, n, Wave::kCosine), 1, 0, kept);
  const ValueId sine = c.slice(waves(c, n, Wave::kSine), 1, 0, kept);
  const ValueId re = along(c, z.real, d, cosine);
  const ValueId turned = along(c, z.real, d, sine);  // of the imaginary part, for exp(+i a)
  if (!z.imaginary.valid()) return {re, forward ? c.op(OpKind::kNeg, {turned}) : turned};
  const ValueId crossed = along(c, z.imaginary, d, sine), im = along(c, z.imaginary, d, cosine);
  return forward ? Complex{c.binary(OpKind::kAdd, re, crossed), c.binary(OpKind::kSub, im, turned)}
                 : Complex{c.binary(OpKind::kSub, re, crossed), c.binary(OpKind::kAdd, im, turned)};
}

// The n real points along axis d whose first n / 2 + 1 frequencies are z; the others are their conjugates. Each has a
// conjugate apart from itself but the first and, of an even number, the last: their imaginary parts count nothing.
ValueId real_points(Call& c, const Complex& z, int64_t d, int64_t n) {
  const int64_t given = n / 2 + 1;
  if (!has_points(c, n)) return z.real;
  if (c.extent(z.real, d) != given) return c.fail("the frequencies are not those of as many points").tensor;
  std::vector<int64_t> times(static_cast<size_t>(given), 2);
  times[0] = 1;
  if (n % 2 == 0) times.back() = 1;
  const ValueId weights = c.cast(c.builder().constant_i64({given, 1}, times), DType::kF32);
  const auto matrix = [&](Wave wave) { return c.op(OpKind::kMul, {c.slice(waves(c, n, wave), 0, 0, given), weights}); };
  const ValueId re = along(c, z.real, d, matrix(Wave::kCosine));
  if (!z.imaginary.valid()) return re;
  return c.binary(OpKind::kSub, re, along(c, z.imaginary, d, matrix(Wave::kSine)));
}

Complex conjugate(Call& c, const Complex& z) {
  return {z.real, z.imaginary.valid() ? c.op(OpKind::kNeg, {z.imaginary}) : ValueId()};
}

enum class Scale : uint8_t { kNone, kRoot, kPoints };  // ATen's fft_norm_mode: by nothing, 1/sqrt(n), 1/n

ValueId scaled(Call& c, ValueId x, Scale scale, double points) {
  if (scale == Scale::kNone || !x.valid()) return x;
  return c.binary(OpKind::kMul, x, scale == Scale::kRoot ? 1 / std::sqrt(points) : 1 / points);
}

double points_of(Call& c, ValueId x, const std::vector<int64_t>& dims) {
  double points = 1;
  for (const int64_t d : dims) points *= static_cast<double>(c.extent(x, d));
  return points;
}

// A transform to complex numbers. Of real points half of the frequencies of the last axis may be kept.
Complex transform(Call& c, Complex z, const std::vector<int64_t>& dims, bool forward, Scale scale, bool half = false) {
  const double points = points_of(c, z.real, dims);
  for (auto d = dims.rbegin(); d != dims.rend() && c.status().ok(); ++d) {
    const int64_t n = c.extent(z.real, *d);
    z = transformed(c, z, *d, forward, half && d == dims.rbegin() ? n / 2 + 1 : n);
  }
  if (!c.status().ok()) return z;
  return {scaled(c, z.real, scale, points), scaled(c, z.imaginary, scale, points)};
}

// The inverse transform to real points, `last` along the last of the axes.
ValueId transform_to_real(Call& c, Complex z, std::vector<int64_t> dims, Scale scale, int64_t last) {
  if (dims.empty()) return c.fail("a Fourier transform of no axes").tensor;
  const int64_t d = dims.back();
  dims.pop_back();
  const double points = points_of(c, z.real, dims) * static_cast<double>(last);
  z = transform(c, z, dims, false, Scale::kNone);
  return scaled(c, real_points(c, z, d, last), scale, points);
}

// What the word of torch.fft divides a transform by: "backward" the inverse alone, "forward" the other alone.
Scale scale_of_word(Call& c, bool forward) {
  const std::string word = c.has("norm") ? c.text("norm") : "backward";
  if (word == "ortho") return Scale::kRoot;
  if (word != "forward" && word != "backward") c.fail("no such normalisation: '" + word + "'");
  return (word == "forward") == forward ? Scale::kPoints : Scale::kNone;
}
Scale scale_of_number(Call& c) {
  const int64_t scale = c.integer("normalization");
  if (scale < 0 || scale > 2) c.fail("no such normalisation: " + std::to_string(scale));
  return static_cast<Scale>(std::clamp<int64_t>(scale, 0, 2));
}

// The axes of a call in its order; those of `s` from the last on, or all, where it names none.
std::vector<int64_t> axes_of(Call& c, std::string_view sizes, size_t rank) {
  std::vector<int64_t> out;
  if (!c.has("dim")) {
    const size_t count = c.has(sizes) ? c.ints(sizes).size() : rank;
    for (size_t i = count; i-- > 0;) out.push_back(static_cast<int64_t>(rank) - 1 - static_cast<int64_t>(i));
    if (!out.empty() && out[0] < 0) c.fail("a Fourier transform of more axes than the tensor has");
  } else {
    for (const int64_t d : c.ints("dim")) out.push_back(ir::axis_from_front(d, rank));
  }
  for (const int64_t d : out)
    if (d < 0 || d >= static_cast<int64_t>(rank) || std::count(out.begin(), out.end(), d) > 1)
      c.fail("a Fourier transform along an axis that does not exist, or twice along one");
  return c.status().ok() ? out : std::vector<int64_t>();
}

// x with the first n elements of axis d, or zeros after those it has.
ValueId resized(Call& c, ValueId x, int64_t d, int64_t n) {
  const int64_t own = c.extent(x, d);
  if (!x.valid() || n == own) return x;
  if (n < own) return c.slice(x, d, 0, n);
  ir::PadAttrs attrs;
  attrs.low.assign(c.shape(x).size(), 0);
  attrs.high = attrs.low;
  attrs.high[static_cast<size_t>(d)] = n - own;
  return c.op(OpKind::kPad, {x}, std::move(attrs));
}

// A call of torch.fft: what it transforms, cut or filled up to the numbers of points that it names. `last`: how many
// points the last axis has, of which a transform to real points is given half.
struct Asked {
  Complex z;
  std::vector<int64_t> dims;
  int64_t last = 0;
};
Asked asked(Call& c, bool to_real) {
  const std::string_view sizes = c.target().ends_with("2.default") || c.target().ends_with("n.default") ? "s" : "n";
  Asked out{complex_argument(c), {}, 0};
  out.dims = axes_of(c, sizes, c.shape(out.z.real).size());
  std::vector<int64_t> points(out.dims.size(), -1);
  if (c.has(sizes)) points = c.ints(sizes);
  if (points.size() != out.dims.size()) c.fail("a Fourier transform of other axes than it has numbers of points for");
  if (out.dims.empty() && c.status().ok()) c.fail("a Fourier transform of no axes");
  for (size_t i = 0; i < out.dims.size() && c.status().ok(); ++i) {
    const bool half = to_real && i + 1 == out.dims.size();
    const int64_t own = c.extent(out.z.real, out.dims[i]), wanted = points[i] != -1 ? points[i]
                                                                    : half          ? 2 * (own - 1)
                                                                                    : own;
    if (!has_points(c, wanted)) break;
    const int64_t given = half ? wanted / 2 + 1 : wanted;
    out.z.real = resized(c, out.z.real, out.dims[i], given);
    if (out.z.imaginary.valid()) out.z.imaginary = resized(c, out.z.imaginary, out.dims[i], given);
    out.last = wanted;
  }
  return out;
}
bool is_real(Call& c, const Asked& a) {
  if (a.z.imaginary.valid()) c.fail("a Fourier transform of real points has complex ones");
  return c.status().ok();
}

}  // namespace

bool is_complex(const Item& x) {
  return x.is_list() && x.list.size() == 2 && x.list[0].is_tensor() && (x.list[1].is_tensor() || x.list[1].is_none());
}

Item fft(Call& c) {
  const Asked a = asked(c, false);
  return listed(transform(c, a.z, a.dims, true, scale_of_word(c, true)));
}
Item ifft(Call& c) {
  const Asked a = asked(c, false);
  return listed(transform(c, a.z, a.dims, false, scale_of_word(c, false)));
}
Item rfft(Call& c) {
  const Asked a = asked(c, false);
  if (!is_real(c, a)) return Item::none();
  return listed(transform(c, a.z, a.dims, true, scale_of_word(c, true), true));
}
Item irfft(Call& c) {
  const Asked a = asked(c, true);
  return made(transform_to_real(c, a.z, a.dims, scale_of_word(c, false), a.last));
}
// The forward transform of what has real frequencies, by the inverse of its conjugate.
Item hfft(Call& c) {
  const Asked a = asked(c, true);
  return made(transform_to_real(c, conjugate(c, a.z), a.dims, scale_of_word(c, true), a.last));
}
Item ihfft(Call& c) {
  const Asked a = asked(c, false);
  if (!is_real(c, a)) return Item::none();
  return listed(conjugate(c, transform(c, a.z, a.dims, true, scale_of_word(c, false), true)));
}
// How the calls above are written after a decomposition: the scale is a number, and the operand as it is.
Item fft_c2c(Call& c) {
  const Complex z = complex_argument(c);
  return listed(transform(c, z, axes_of(c, "dim", c.shape(z.real).size()), c.flag("forward"), scale_of_number(c)));
}
Item fft_r2c(Call& c) {
  const Complex z = complex_argument(c);
  return listed(
      transform(c, z, axes_of(c, "dim", c.shape(z.real).size()), true, scale_of_number(c), c.flag("onesided")));
}
Item fft_c2r(Call& c) {
  const Complex z = complex_argument(c);
  return made(transform_to_real(c, z, axes_of(c, "dim", c.shape(z.real).size()), scale_of_number(c),
                                c.integer("last_dim_size")));
}

// Transforms of windows of `n_fft` points, `hop_length` apart, along the last axis: [.., frequencies, windows].
Item stft(Call& c) {
  Complex z = complex_argument(c);
  const bool lone = c.rank(z.real) == 1, onesided = c.has("onesided") ? c.flag("onesided") : !z.imaginary.valid();
  const int64_t axis = c.rank(z.real) - 1, points = c.integer("n_fft"), n = c.extent(z.real, axis);
  const int64_t hop = c.has("hop_length") ? c.integer("hop_length") : points / 4;
  const int64_t length = c.has("win_length") ? c.integer("win_length") : points;
  if (axis < 0 || axis > 1 || !has_points(c, points) || points > n || hop < 1 || length < 1 || length > points ||
      c.flag("align_to_window") || (onesided && z.imaginary.valid()))
    return c.fail("stft of this form");
  const int64_t windows = 1 + (n - points) / hop;
  if (!c.may_make(c.product(windows, points))) return Item::none();
  std::vector<int64_t> places;
  for (int64_t i = 0; i < windows; ++i)
    for (int64_t k = 0; k < points; ++k) places.push_back(i * hop + k);
  const ValueId order = c.builder().constant_i64({windows * points}, places);
  ValueId shape = c.has("window") ? c.tensor("window") : ValueId();
  if (shape.valid() && (c.rank(shape) != 1 || c.extent(shape, 0) != length)) return c.fail("stft of another window");
  if (length < points) {  // in the middle
    ir::PadAttrs attrs{{(points - length) / 2}, {points - length - (points - length) / 2}, 0};
    shape = c.op(OpKind::kPad, {shape.valid() ? shape : c.filled({length}, 1, DType::kF32)}, std::move(attrs));
  }
  for (ValueId* part : {&z.real, &z.imaginary}) {
    if (!part->valid()) continue;
    const ValueId x = lone ? c.unsqueeze(*part, 0) : *part;
    *part = c.reshape(c.op(OpKind::kIndexSelect, {x, order}, ir::DimAttrs{1}), {c.extent(x, 0), windows, points});
    if (shape.valid()) *part = c.binary(OpKind::kMul, *part, shape);
  }
  z = transform(c, z, {2}, true, c.flag("normalized") ? Scale::kRoot : Scale::kNone, onesided);
  if (!c.status().ok()) return Item::none();
  z.imaginary = imaginary_part(c, z);
  for (ValueId* part : {&z.real, &z.imaginary}) {
    *part = c.transpose(*part, 1, 2);
    if (lone) *part = c.squeeze(*part, 0);
  }
  if (c.flag("return_complex")) return listed(z);
  const int64_t last = c.rank(z.real);
  return made(c.cat({c.unsqueeze(z.real, last), c.unsqueeze(z.imaginary, last)}, last));
}

// ---- complex numbers

Item complex_of_real(Call& c) { return listed({complex_argument(c).real, ValueId()}); }
Item real(Call& c) { return made(complex_argument(c).real); }
Item imag(Call& c) {
  if (!is_complex(c.arg("self"))) return c.fail("imag of a real tensor");
  return made(imaginary_part(c, complex_argument(c)));
}
Item view_as_real(Call& c) {
  if (!is_complex(c.arg("self"))) return c.fail("view_as_real of a real tensor");
  const Complex z = complex_argument(c);
  const int64_t last = c.rank(z.real);
  return made(c.cat({c.unsqueeze(z.real, last), c.unsqueeze(imaginary_part(c, z), last)}, last));
}
Item view_as_complex(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t last = c.rank(x) - 1;
  if (c.dtype(x) != DType::kF32 || last < 0 || c.extent(x, last) != 2)
    return c.fail("complex numbers are supported with parts of float32, two along the last axis");
  return listed({c.squeeze(c.slice(x, last, 0, 1), last), c.squeeze(c.slice(x, last, 1, 2), last)});
}
namespace {
Item of_parts(Call& c, ValueId re, ValueId im) {
  if (c.dtype(re) != DType::kF32) return c.fail("complex numbers are supported with parts of float32");
  return listed({re, im});
}
}  // namespace
Item complex_of_parts(Call& c) {
  const ValueId re = c.tensor("real"), im = c.tensor("imag");
  const std::optional<ir::Shape> shape = ir::broadcast_shape(c.shape(re), c.shape(im));
  if (!shape) return c.fail("parts whose shapes cannot be broadcast");
  return of_parts(c, c.expand(re, *shape), c.expand(im, *shape));
}
Item polar(Call& c) {
  const ValueId size = c.tensor("abs"), angle = c.tensor("angle");
  return of_parts(c, c.binary(OpKind::kMul, size, c.op(OpKind::kCos, {angle})),
                  c.binary(OpKind::kMul, size, c.op(OpKind::kSin, {angle})));
}
Item same_complex(Call& c) { return is_complex(c.arg("self")) ? c.arg("self") : made(c.tensor("self")); }
Item conj(Call& c) {
  if (!is_complex(c.arg("self"))) return made(c.tensor("self"));
  return listed(conjugate(c, complex_argument(c)));
}

namespace {
ValueId sum_of(Call& c, OpKind kind, ValueId a, ValueId b) {
  if (!b.valid()) return a;
  if (!a.valid()) return kind == OpKind::kSub ? c.op(OpKind::kNeg, {b}) : b;
  return c.binary(kind, a, b);
}
ValueId product_of(Call& c, ValueId a, ValueId b) {
  return a.valid() && b.valid() ? c.binary(OpKind::kMul, a, b) : ValueId();
}
// A number or a tensor of numbers is a complex one without an imaginary part.
Complex operand(Call& c, std::string_view name) {
  const Item& x = c.arg(name);
  if (is_complex(x) || x.is_tensor()) return complex_argument(c, name);
  return {c.as(x, DType::kF32), ValueId()};
}
Item complex_sum(Call& c) {
  const Complex a = operand(c, "self"), b = operand(c, "other");
  if (c.real("alpha") != 1) return c.fail("a sum of complex numbers with another factor than 1");
  if (c.shape(a.real) != c.shape(b.real) && !(a.imaginary.valid() && b.imaginary.valid()))
    return c.fail("a sum of real and complex numbers of different shapes");
  return listed({c.binary(c.kind(), a.real, b.real), sum_of(c, c.kind(), a.imaginary, b.imaginary)});
}
Item complex_product(Call& c) {
  const Complex a = operand(c, "self"), b = operand(c, "other");
  const ValueId re = sum_of(c, OpKind::kSub, product_of(c, a.real, b.real), product_of(c, a.imaginary, b.imaginary));
  return listed({re, sum_of(c, OpKind::kAdd, product_of(c, a.real, b.imaginary), product_of(c, a.imaginary, b.real))});
}
}  // namespace

// Calls that have one tensor and give each part what they give of it.
bool is_part_wise(const std::string& target) {
  static constexpr std::string_view kCalls[] = {"alias",
                                                "clone",
                                                "constant_pad_nd",
                                                "contiguous",
                                                "detach",
                                                "diagonal_copy",
                                                "expand",
                                                "flatten",
                                                "flip",
                                                "index_select",
                                                "mean",
                                                "movedim",
                                                "narrow",
                                                "neg",
                                                "permute",
                                                "repeat",
                                                "reshape",
                                                "roll",
                                                "select",
                                                "slice",
                                                "squeeze",
                                                "sum",
                                                "t",
                                                "transpose",
                                                "unflatten",
                                                "unsqueeze",
                                                "view",
                                                "_unsafe_view",
                                                "lift_fresh_copy"};
  const std::string_view name = std::string_view(target).substr(5, target.rfind('.') - 5);
  return target.starts_with("aten.") && std::find(std::begin(kCalls), std::end(kCalls), name) != std::end(kCalls);
}

Handler of_complex(const std::string& target) {
  const std::string_view name = target;
  if (name == "aten.mul.Tensor") return &complex_product;
  if (name == "aten.add.Tensor" || name == "aten.sub.Tensor") return &complex_sum;
  return nullptr;
}

}  // namespace piper::frontend::aten
