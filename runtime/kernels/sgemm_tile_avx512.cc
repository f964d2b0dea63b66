#include <algorithm>

#include "runtime/kernels/sgemm_tile_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PIPER_AVX512 __attribute__((target("avx512f")))
#if defined(__clang__)
#define PIPER_UNROLL _Pragma("unroll")
#else
#define PIPER_UNROLL _Pragma("GCC unroll 16")
#endif

namespace piper::kernels {
namespace {

constexpr int64_t kTileRows = 14, kTileColumns = 32;
constexpr int64_t kVector = 16;
constexpr int64_t kAhead = 8;  // rows of b to fetch ahead of their use

__mmask16 first_lanes(int64_t count) {
  return count >= kVector ? __mmask16{0xffff} : count <= 0 ? __mmask16{0} : static_cast<__mmask16>((1u << count) - 1);
}

// Sums of R x (16 or 32) elements stay in registers. kMasked: fewer columns than the vectors hold; masked loads of b
// would cost whole tiles 4 % on Zen 4.
template <int R, int kVectors, bool kMasked, bool kDirect>
PIPER_AVX512 void tile(const TileOperands& t) {
  __mmask16 mask[kVectors];
  __m512 sum[R][kVectors];
  PIPER_UNROLL
  for (int v = 0; v < kVectors; ++v) mask[v] = first_lanes(t.columns - v * kVector);
  PIPER_UNROLL
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < kVectors; ++v) {
      sum[i][v] = _mm512_setzero_ps();
      _mm_prefetch(reinterpret_cast<const char*>(t.c + i * t.c_row + v * kVector), _MM_HINT_T0);
    }
  const int64_t depth = t.depth, a_step = t.a_step, b_step = t.b_step;
  const float *a = t.a, *b = t.b;
  for (int64_t p = 0; p < depth; ++p) {
    __m512 row[kVectors];
    PIPER_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      row[v] = kMasked ? _mm512_maskz_loadu_ps(mask[v], b + v * kVector) : _mm512_loadu_ps(b + v * kVector);
      _mm_prefetch(reinterpret_cast<const char*>(b + kAhead * b_step + v * kVector), _MM_HINT_T0);
    }
    b += b_step;
    PIPER_UNROLL
    for (int i = 0; i < R; ++i) {
      const __m512 x = _mm512_set1_ps(kDirect ? a[i * a_step + p] : a[i]);
      PIPER_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(x, row[v], sum[i][v]);
    }
    if (!kDirect) a += a_step;
  }
  if (t.bias != nullptr) PIPER_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const __m512 bias = _mm512_maskz_loadu_ps(mask[v], t.bias + v * kVector);
    PIPER_UNROLL
    for (int i = 0; i < R; ++i) sum[i][v] = _mm512_add_ps(sum[i][v], bias);
  }
  if (t.add) PIPER_UNROLL
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask[v], t.c + i * t.c_row + v * kVector), sum[i][v]);
  PIPER_UNROLL
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < kVectors; ++v) {
      float* c = t.c + i * t.c_row + v * kVector;
      if (kMasked) _mm512_mask_storeu_ps(c, mask[v], sum[i][v]);
      else _mm512_storeu_ps(c, sum[i][v]);
    }
}

PIPER_AVX512 void transpose(const float* from, int64_t stride, int64_t lanes, int64_t depth, float* to, int64_t step);

struct Set {
  static constexpr int64_t kVector = kernels::kVector;
  template <int R, int kVectors, bool kMasked, bool kDirect>
  static void multiply(const TileOperands& t) {
    tile<R, kVectors, kMasked, kDirect>(t);
  }
  static void transpose(const float* from, int64_t stride, int64_t lanes, int64_t depth, float* to, int64_t step) {
    kernels::transpose(from, stride, lanes, depth, to, step);
  }
};

// Fewer rows than a full tile's, in pieces of R, R / 2 and so on.
template <int R, bool kDirect>
void rest_of_tile(TileOperands t, int64_t rows) {
  for (; rows >= R; rows -= R) {
    tile_of_width<Set, R, kDirect>(t);
    t.a += kDirect ? R * t.a_step : R;
    t.c += R * t.c_row;
  }
  if constexpr (R > 1)
    if (rows > 0) rest_of_tile<R / 2, kDirect>(t, rows);
}

template <bool kDirect>
void tile_of_rows(const TileOperands& t, int64_t rows) {
  if (rows == kTileRows) tile_of_width<Set, kTileRows, kDirect>(t);
  else rest_of_tile<8, kDirect>(t, rows);
}

// to[p * step + lane] = from[lane * stride + p] for 16 x 16 elements or fewer.
PIPER_AVX512 void transpose(const float* from, int64_t stride, int64_t lanes, int64_t depth, float* to, int64_t step) {
  const __mmask16 read = first_lanes(depth), write = first_lanes(lanes);
  __m512 r[16], t[16];
  PIPER_UNROLL
  for (int i = 0; i < 16; ++i) r[i] = i < lanes ? _mm512_maskz_loadu_ps(read, from + i * stride) : _mm512_setzero_ps();
  PIPER_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  PIPER_UNROLL
  for (int i = 0; i < 16; i += 4) {
    const __m512d low0 = _mm512_castps_pd(t[i]), low1 = _mm512_castps_pd(t[i + 2]);
    const __m512d high0 = _mm512_castps_pd(t[i + 1]), high1 = _mm512_castps_pd(t[i + 3]);
    r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low0, low1));
    r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low0, low1));
    r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high0, high1));
    r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high0, high1));
  }
  // r[4 g + q] holds rows 4 g to 4 g + 3 of columns q, 4 + q, 8 + q and 12 + q.
  PIPER_UNROLL
  for (int q = 0; q < 4; ++q) {
    const __m512 even0 = _mm512_shuffle_f32x4(r[q], r[4 + q], 0x88),
                 even1 = _mm512_shuffle_f32x4(r[8 + q], r[12 + q], 0x88);
    const __m512 odd0 = _mm512_shuffle_f32x4(r[q], r[4 + q], 0xdd),
                 odd1 = _mm512_shuffle_f32x4(r[8 + q], r[12 + q], 0xdd);
    t[q] = _mm512_shuffle_f32x4(even0, even1, 0x88);
    t[8 + q] = _mm512_shuffle_f32x4(even0, even1, 0xdd);
    t[4 + q] = _mm512_shuffle_f32x4(odd0, odd1, 0x88);
    t[12 + q] = _mm512_shuffle_f32x4(odd0, odd1, 0xdd);
  }
  if (lanes == 16) {
    PIPER_UNROLL
    for (int i = 0; i < 16; ++i)
      if (i < depth) _mm512_storeu_ps(to + i * step, t[i]);
  } else {
    PIPER_UNROLL
    for (int i = 0; i < 16; ++i)
      if (i < depth) _mm512_mask_storeu_ps(to + i * step, write, t[i]);
  }
}

// Panels of lanes that lie side by side, a row of several panels at a time: rows may be pages apart.
PIPER_AVX512 void copy_panels(const Lines& lines, float* to, int64_t width) {
  constexpr int64_t kTogether = 128;  // lanes: one row's cache lines are read at once
  const __mmask16 low = first_lanes(width), high = first_lanes(width - kVector);
  for (int64_t start = 0; start < lines.lanes; start += kTogether / width * width) {
    const int64_t end = std::min(lines.lanes, start + kTogether / width * width);
    const int64_t whole = start + (end - start) / width * width;
    const __mmask16 last_low = first_lanes(end - whole), last_high = first_lanes(end - whole - kVector);
    for (int64_t p = 0; p < lines.depth; ++p) {
      const float* from = lines.from + p * lines.depth_stride;
      float* panel = to + start * lines.depth + p * width;
      for (int64_t lane = start; lane < end; lane += kVector)
        _mm_prefetch(reinterpret_cast<const char*>(from + 4 * lines.depth_stride + lane), _MM_HINT_T0);
      int64_t lane = start;
      for (; lane < whole; lane += width, panel += width * lines.depth) {
        _mm512_mask_storeu_ps(panel, low, _mm512_maskz_loadu_ps(low, from + lane));
        if (high != 0) _mm512_mask_storeu_ps(panel + kVector, high, _mm512_maskz_loadu_ps(high, from + lane + kVector));
      }
      if (lane == end) continue;
      _mm512_mask_storeu_ps(panel, last_low, _mm512_maskz_loadu_ps(last_low, from + lane));
      if (last_high != 0)
        _mm512_mask_storeu_ps(panel + kVector, last_high, _mm512_maskz_loadu_ps(last_high, from + lane + kVector));
    }
  }
}

void multiply_tile(const TileOperands& t, int64_t rows, bool direct) {
  if (direct) tile_of_rows<true>(t, rows);
  else tile_of_rows<false>(t, rows);
}

void pack_panels(const Lines& lines, float* to, int64_t width) {
  if (lines.lane_stride == 1) {
    copy_panels(lines, to, width);
    return;
  }
  pack_strided<Set>(lines, to, width);
}

bool supported() { return __builtin_cpu_supports("avx512f") != 0; }

}  // namespace

const Tiles kAvx512Tiles{kTileRows, kTileColumns, multiply_tile, pack_panels, supported};

}  // namespace piper::kernels

#else

namespace piper::kernels {
const Tiles kAvx512Tiles{14, 32, nullptr, nullptr, [] { return false; }};
}  // namespace piper::kernels
#endif
