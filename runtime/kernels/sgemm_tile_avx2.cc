#include <algorithm>

#include "runtime/kernels/sgemm_tile_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PIPER_AVX2 __attribute__((target("avx2,fma")))
#if defined(__clang__)
#define PIPER_UNROLL _Pragma("unroll")
#else
#define PIPER_UNROLL _Pragma("GCC unroll 16")
#endif

namespace piper::kernels {
namespace {

constexpr int64_t kTileRows = 6, kTileColumns = 16;
constexpr int64_t kVector = 8;

// The first `count` lanes.
PIPER_AVX2 __m256i first_lanes(int64_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(std::min(count, kVector))), lanes);
}

// Sums of R x (8 or 16) elements stay in registers. kMasked: fewer columns than the vectors hold.
template <int R, int kVectors, bool kMasked, bool kDirect>
PIPER_AVX2 void tile(const TileOperands& t) {
  __m256i mask[kVectors];
  __m256 sum[R][kVectors];
  PIPER_UNROLL
  for (int v = 0; v < kVectors; ++v) mask[v] = first_lanes(t.columns - v * kVector);
  PIPER_UNROLL
  for (int i = 0; i < R; ++i) {
    PIPER_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm256_setzero_ps();
    _mm_prefetch(reinterpret_cast<const char*>(t.c + i * t.c_row), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(t.c + i * t.c_row + t.columns - 1), _MM_HINT_T0);
  }
  const int64_t depth = t.depth, a_step = t.a_step, b_step = t.b_step;
  const float *a = t.a, *b = t.b;
  for (int64_t p = 0; p < depth; ++p) {
    __m256 row[kVectors];
    PIPER_UNROLL
    for (int v = 0; v < kVectors; ++v)
      row[v] = kMasked ? _mm256_maskload_ps(b + v * kVector, mask[v]) : _mm256_loadu_ps(b + v * kVector);
    b += b_step;
    PIPER_UNROLL
    for (int i = 0; i < R; ++i) {
      const __m256 x = _mm256_broadcast_ss(kDirect ? a + i * a_step + p : a + i);
      PIPER_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm256_fmadd_ps(x, row[v], sum[i][v]);
    }
    if (!kDirect) a += a_step;
  }
  if (t.bias != nullptr) PIPER_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const __m256 bias = _mm256_maskload_ps(t.bias + v * kVector, mask[v]);
    PIPER_UNROLL
    for (int i = 0; i < R; ++i) sum[i][v] = _mm256_add_ps(sum[i][v], bias);
  }
  PIPER_UNROLL
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < kVectors; ++v) {
      float* c = t.c + i * t.c_row + v * kVector;
      if (kMasked) {
        if (t.add) sum[i][v] = _mm256_add_ps(_mm256_maskload_ps(c, mask[v]), sum[i][v]);
        _mm256_maskstore_ps(c, mask[v], sum[i][v]);
      } else {
        if (t.add) sum[i][v] = _mm256_add_ps(_mm256_loadu_ps(c), sum[i][v]);
        _mm256_storeu_ps(c, sum[i][v]);
      }
    }
}

PIPER_AVX2 void transpose(const float* from, int64_t stride, int64_t lanes, int64_t depth, float* to, int64_t step);

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

template <bool kDirect>
void tile_of_rows(const TileOperands& t, int64_t rows) {
  switch (rows) {
    case 6: return tile_of_width<Set, 6, kDirect>(t);
    case 5: return tile_of_width<Set, 5, kDirect>(t);
    case 4: return tile_of_width<Set, 4, kDirect>(t);
    case 3: return tile_of_width<Set, 3, kDirect>(t);
    case 2: return tile_of_width<Set, 2, kDirect>(t);
    default: return tile_of_width<Set, 1, kDirect>(t);
  }
}

void multiply_tile(const TileOperands& t, int64_t rows, bool direct) {
  if (direct) tile_of_rows<true>(t, rows);
  else tile_of_rows<false>(t, rows);
}

// to[0..lanes) = x, lanes: 1 to 8. Not by a masked store: those take a dozen cycles on AMD's processors.
PIPER_AVX2 inline void store_first(float* to, __m256 x, int64_t lanes) {
  if (lanes == kVector) return _mm256_storeu_ps(to, x);
  __m128 part = _mm256_castps256_ps128(x);
  if (lanes >= 4) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(x, 1);
    to += 4;
    lanes -= 4;
  }
  if (lanes >= 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
    lanes -= 2;
  }
  if (lanes == 1) _mm_store_ss(to, part);
}

// to[p * step + lane] = from[lane * stride + p] for 8 x 8 elements or fewer.
PIPER_AVX2 void transpose(const float* from, int64_t stride, int64_t lanes, int64_t depth, float* to, int64_t step) {
  const __m256i read = first_lanes(depth);
  __m256 r[8], t[8];
  PIPER_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = i < lanes ? _mm256_maskload_ps(from + i * stride, read) : _mm256_setzero_ps();
  PIPER_UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  PIPER_UNROLL
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  // r[4 g + q] holds rows 4 g to 4 g + 3 of columns q and 4 + q.
  PIPER_UNROLL
  for (int q = 0; q < 4; ++q) {
    t[q] = _mm256_permute2f128_ps(r[q], r[4 + q], 0x20);
    t[4 + q] = _mm256_permute2f128_ps(r[q], r[4 + q], 0x31);
  }
  PIPER_UNROLL
  for (int i = 0; i < 8; ++i)
    if (i < depth) store_first(to + i * step, t[i], lanes);
}

// Panels of lanes that lie side by side, a row of several panels at a time: rows may be pages apart.
template <int64_t kWidth>
PIPER_AVX2 void copy_panels(const Lines& lines, float* to) {
  constexpr int64_t kTogether = 96 / kWidth * kWidth;  // lanes: one row's cache lines are read at once
  for (int64_t start = 0; start < lines.lanes; start += kTogether) {
    const int64_t end = std::min(lines.lanes, start + kTogether), whole = start + (end - start) / kWidth * kWidth;
    for (int64_t p = 0; p < lines.depth; ++p) {
      const float* from = lines.from + p * lines.depth_stride;
      float* panel = to + start * lines.depth + p * kWidth;
      for (int64_t lane = start; lane < end; lane += 2 * kVector)
        _mm_prefetch(reinterpret_cast<const char*>(from + 4 * lines.depth_stride + lane), _MM_HINT_T0);
      for (int64_t lane = start; lane < whole; lane += kWidth, panel += kWidth * lines.depth)
        std::copy(from + lane, from + lane + kWidth, panel);
      std::copy(from + whole, from + end, panel);
    }
  }
}

void pack_panels(const Lines& lines, float* to, int64_t width) {
  if (lines.lane_stride == 1) {
    if (width == kTileColumns) copy_panels<kTileColumns>(lines, to);
    else copy_panels<kTileRows>(lines, to);
    return;
  }
  pack_strided<Set>(lines, to, width);
}

bool supported() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }

}  // namespace

const Tiles kAvx2Tiles{kTileRows, kTileColumns, multiply_tile, pack_panels, supported};

}  // namespace piper::kernels

#else

namespace piper::kernels {
const Tiles kAvx2Tiles{6, 16, nullptr, nullptr, [] { return false; }};
}  // namespace piper::kernels
#endif
