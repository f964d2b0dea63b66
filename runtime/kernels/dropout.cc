#include "runtime/kernels/dropout.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/kernels/binding.h"
#include "runtime/kernels/clones.h"

namespace piper::kernels {
namespace {

constexpr int kBlocks = 16;  // made at a time

// The words of kBlocks blocks in element order, one block after the other ...
void make_words_plain(const DropoutStream& stream, uint32_t sample, uint32_t block, uint32_t* words) {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const auto four = dropout_words(stream, sample, block + i);
    std::copy(four.begin(), four.end(), words + 4 * i);
  }
}

#if defined(__x86_64__)
// ... and sixteen blocks at once. Compilers do not find the 32 x 32 -> 64 bit products by themselves.
__attribute__((target("avx512f"))) void make_words_wide(const DropoutStream& stream, uint32_t sample, uint32_t block,
                                                        uint32_t* words) {
  const __m512i counting = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i c0 = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(block)), counting);
  __m512i c1 = _mm512_set1_epi32(static_cast<int>(sample)), c2 = _mm512_set1_epi32(static_cast<int>(stream.step)),
          c3 = _mm512_set1_epi32(static_cast<int>(stream.purpose));
  const __m512i m0 = _mm512_set1_epi32(static_cast<int>(0xd2511f53u)),
                m1 = _mm512_set1_epi32(static_cast<int>(0xcd9e8d57u));
  uint32_t key0 = stream.key0, key1 = stream.key1;
  for (int round = 0; round < 10; ++round) {
    const __m512i a_even = _mm512_mul_epu32(c0, m0), a_odd = _mm512_mul_epu32(_mm512_srli_epi64(c0, 32), m0);
    const __m512i b_even = _mm512_mul_epu32(c2, m1), b_odd = _mm512_mul_epu32(_mm512_srli_epi64(c2, 32), m1);
    const __m512i a_low = _mm512_mask_blend_epi32(0xaaaa, a_even, _mm512_slli_epi64(a_odd, 32));
    const __m512i a_high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(a_even, 32), a_odd);
    const __m512i b_low = _mm512_mask_blend_epi32(0xaaaa, b_even, _mm512_slli_epi64(b_odd, 32));
    const __m512i b_high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(b_even, 32), b_odd);
    c0 = _mm512_xor_epi32(_mm512_xor_epi32(b_high, c1), _mm512_set1_epi32(static_cast<int>(key0)));
    c2 = _mm512_xor_epi32(_mm512_xor_epi32(a_high, c3), _mm512_set1_epi32(static_cast<int>(key1)));
    c1 = b_low;
    c3 = a_low;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  alignas(64) uint32_t by_word[4][kBlocks];
  _mm512_store_si512(by_word[0], c0);
  _mm512_store_si512(by_word[1], c1);
  _mm512_store_si512(by_word[2], c2);
  _mm512_store_si512(by_word[3], c3);
  for (int i = 0; i < kBlocks; ++i)
    for (int word = 0; word < 4; ++word) words[4 * i + word] = by_word[word][i];
}
bool cpu_is_wide() {
  static const bool wide = __builtin_cpu_supports("avx512f");
  return wide;
}
void make_words(const DropoutStream& stream, uint32_t sample, uint32_t block, uint32_t* words) {
  cpu_is_wide() ? make_words_wide(stream, sample, block, words) : make_words_plain(stream, sample, block, words);
}
#else
void make_words(const DropoutStream& stream, uint32_t sample, uint32_t block, uint32_t* words) {
  make_words_plain(stream, sample, block, words);
}
#endif

// y[i] = x[i] * scale or 0 for the elements [first, first + count) of a sample.
template <class T>
PIPER_INLINE void drop(const T* x, T* y, int64_t first, int64_t count, const DropoutStream& stream, uint32_t sample,
                       uint32_t threshold, T scale) {
  uint32_t words[4 * kBlocks];
  int64_t done = 0;
  while (done < count) {
    const int64_t block = (first + done) / 4, skip = (first + done) % 4;
    make_words(stream, sample, static_cast<uint32_t>(block), words);
    const int64_t now = std::min<int64_t>(4 * kBlocks - skip, count - done);
    const uint32_t* from = words + skip;
    for (int64_t i = 0; i < now; ++i) y[done + i] = (from[i] >> 8) >= threshold ? x[done + i] * scale : T(0);
    done += now;
  }
}

PIPER_CLONES void drop_f32(const float* x, float* y, int64_t first, int64_t count, const DropoutStream& stream,
                           uint32_t sample, uint32_t threshold, float scale) {
  drop(x, y, first, count, stream, sample, threshold, scale);
}
PIPER_CLONES void drop_f64(const double* x, double* y, int64_t first, int64_t count, const DropoutStream& stream,
                           uint32_t sample, uint32_t threshold, double scale) {
  drop(x, y, first, count, stream, sample, threshold, scale);
}

struct Extents {
  int64_t outer, batch, inner;
};

void drop_all(const at::Tensor& x, at::Tensor& y, const Extents& e, double p, const DropoutStream& stream,
              int64_t sample_offset, const MaskedPart& part) {
  const uint32_t threshold = dropout_threshold(p);
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  for (int64_t outer = 0; outer < e.outer; ++outer)
    for (int64_t n = 0; n < e.batch; ++n) {
      const auto sample = static_cast<uint32_t>(sample_offset + n);
      for (int64_t done = 0, count = 0; done < e.inner; done += count) {  // as far as elements follow one another
        const int64_t element = outer * e.inner + done, first = part.in_whole(element);
        count = std::min(e.inner - done, part.row - element % part.row);
        const int64_t at = (outer * e.batch + n) * e.inner + done;
        if (x.scalar_type() == at::kFloat)
          drop_f32(x.const_data_ptr<float>() + at, y.mutable_data_ptr<float>() + at, first, count, stream, sample,
                   threshold, static_cast<float>(scale));
        else
          drop_f64(x.const_data_ptr<double>() + at, y.mutable_data_ptr<double>() + at, first, count, stream, sample,
                   threshold, scale);
      }
    }
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_dropout(const Call& call) {
  const at::Tensor x = call.in(0), seed_step = call.in(1), sample_offset = call.in(2);
  const double p = call.attr_double("p");
  if (!(p >= 0 && p <= 1)) refuse("attribute `p` is ", p);
  const auto key = static_cast<uint64_t>(call.attr_int("key"));
  const Extents e{call.attr_int("outer"), call.attr_int("batch"), call.attr_int("inner")};
  if (e.outer < 0 || e.batch < 0 || e.inner < 0 || e.outer * e.batch * e.inner != x.numel())
    refuse("attributes of ", e.outer, " x ", e.batch, " x ", e.inner, " elements for ", x.numel());
  if (!at::isFloatingType(x.scalar_type())) refuse("element type ", toString(x.scalar_type()), " is not supported");
  want_shape(call.out(0), x.sizes(), "the output");
  want_same_dtype(call.out(0), x);
  want_dtype(seed_step, at::kLong, "input 1");
  want_dtype(sample_offset, at::kLong, "input 2");
  if (seed_step.numel() != 2 || !seed_step.is_contiguous()) refuse("input 1 does not hold seed and step");
  if (sample_offset.numel() != 1) refuse("input 2 does not hold one number");
  MaskedPart part{1, std::max<int64_t>(e.outer * e.inner, 1), 0};
  const at::Tensor place = call.in(3);
  if (place.defined()) {
    part = {call.attr_int("places"), call.attr_int("row"), 0};
    want_dtype(place, at::kLong, "the place");
    want_shape(place, {1}, "the place");
    if (part.places < 1 || part.row < 1 || e.outer * e.inner % part.row != 0)
      refuse("attributes of ", part.places, " places with rows of ", part.row, " of ", e.outer * e.inner, " elements");
  }
  return make_kernel(call, [y = call.out(0), x, seed_step, sample_offset, place, p, key, e, part]() mutable {
    const int64_t* values = seed_step.const_data_ptr<int64_t>();
    const DropoutStream stream =
        dropout_stream(static_cast<uint64_t>(values[0]), static_cast<uint64_t>(values[1]), key);
    const at::Tensor input = dense_computed(x);
    const int64_t first_sample = *sample_offset.const_data_ptr<int64_t>();
    if (place.defined()) part.place = *place.const_data_ptr<int64_t>();
    produce_computed(y, false, [&](at::Tensor& out) { drop_all(input, out, e, p, stream, first_sample, part); });
  });
}

}  // namespace piper::kernels
