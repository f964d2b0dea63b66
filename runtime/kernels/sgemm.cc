// The loops around the tile follow Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008): a block of b is packed into panels of 32 columns that stay in the second-level
// cache, a block of a into strips of 14 rows unless its rows are dense, and a tile of 14 x 32 sums stays
// in registers for the depth of a block.
#include "runtime/kernels/sgemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "runtime/kernels/sgemm_tile.h"

namespace piper::kernels {
namespace {

constexpr int64_t kDepth = 256;                // terms of a chain; a panel of b then fits the first-level cache
constexpr int64_t kWidth = 24 * kTileColumns;  // columns of a packed block of b
constexpr int64_t kHeight = 8 * kTileRows;     // rows of a packed block of a

struct Packed {
  alignas(64) float b[kDepth * kWidth];
  alignas(64) float a[kDepth * kHeight];
};
Packed& packed() {
  thread_local const std::unique_ptr<Packed> memory(new Packed);
  return *memory;
}

// One strip of a against all panels of a block of b.
void multiply_strip(TileOperands tile, int64_t rows, bool direct, int64_t columns, int64_t panel) {
  for (int64_t j = 0; j < columns; j += kTileColumns) {
    tile.columns = std::min(kTileColumns, columns - j);
    multiply_tile(tile, rows, direct);
    tile.b += panel;
    tile.c += kTileColumns;
    if (tile.bias != nullptr) tile.bias += kTileColumns;
  }
}

// Columns [j0, j0 + width), terms [p0, p0 + depth).
void multiply_block(const Sgemm& p, int64_t j0, int64_t width, int64_t p0, int64_t depth) {
  // Rows 4 KiB apart would all lie in one set of the first-level cache.
  const bool direct_a = p.a_column == 1 && p.a_row % 1024 != 0;
  // Few rows of a do not repay the packing of b.
  const bool direct_b = p.b_column == 1 && p.m <= 3 * kTileRows;
  Packed& memory = packed();
  const float* b = p.b + p0 * p.b_row + j0 * p.b_column;
  if (!direct_b) pack_panels({b, p.b_column, p.b_row, width, depth}, memory.b, kTileColumns);
  TileOperands tile{};
  tile.depth = depth;
  tile.a_step = direct_a ? p.a_row : kTileRows;
  tile.b = direct_b ? b : memory.b;
  tile.b_step = direct_b ? p.b_row : kTileColumns;
  tile.c_row = p.c_row;
  tile.bias = p.bias != nullptr && p0 == 0 ? p.bias + j0 : nullptr;
  tile.add = p.accumulate || p0 > 0;
  const int64_t panel = direct_b ? kTileColumns : kTileColumns * depth;
  for (int64_t i0 = 0; i0 < p.m; i0 += kHeight) {
    const int64_t height = std::min(kHeight, p.m - i0);
    const float* a = p.a + i0 * p.a_row + p0 * p.a_column;
    if (!direct_a) pack_panels({a, p.a_row, p.a_column, height, depth}, memory.a, kTileRows);
    for (int64_t i = 0; i < height; i += kTileRows) {
      tile.a = direct_a ? a + i * p.a_row : memory.a + i * depth;
      tile.c = p.c + (i0 + i) * p.c_row + j0;
      multiply_strip(tile, std::min(kTileRows, height - i), direct_a, width, panel);
    }
  }
}

void multiply(const Sgemm& p) {
  for (int64_t j0 = 0; j0 < p.n; j0 += kWidth)
    // One block even where k is 0: it writes the bias.
    for (int64_t p0 = 0; p0 == 0 || p0 < p.k; p0 += kDepth)
      multiply_block(p, j0, std::min(kWidth, p.n - j0), p0, std::min(kDepth, p.k - p0));
}

// The same product with rows and columns exchanged, where columns of c are dense too.
Sgemm turned(const Sgemm& p, int64_t c_column) {
  Sgemm t = p;
  std::swap(t.m, t.n);
  t.a = p.b, t.a_row = p.b_column, t.a_column = p.b_row;
  t.b = p.a, t.b_row = p.a_column, t.b_column = p.a_row;
  t.c_row = c_column;
  return t;
}

struct Choice {
  OwnProducts own = OwnProducts::kNone;
  const char* refused = nullptr;
};
Choice choose() {
  const char* text = std::getenv("PIPER_SGEMM");
  const std::string_view wish = text == nullptr ? "" : text;
  if (wish == "library") return {};
  const bool all = wish == "own", attention = wish == "attention";
  if (wish != "" && !all && !attention)
    return {{}, "the environment variable PIPER_SGEMM is none of own, attention and library"};
  if (wish != "" && !can_sgemm())
    return {{}, "the environment variable PIPER_SGEMM asks for own products, but this processor has no AVX-512"};
#if !defined(__x86_64__) || !defined(_OPENMP)
  // Without OpenMP sgemm() has one thread.
  if (wish == "") return {};
#endif
  if (!can_sgemm()) return {};
#if defined(__x86_64__)
  // The library runs its AVX2 kernels on AMD's processors.
  if (all || (wish == "" && __builtin_cpu_is("amd"))) return {OwnProducts::kAll};
#endif
  return {OwnProducts::kAttention};
}

}  // namespace

bool can_sgemm() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

OwnProducts chosen_own_products() {
  static const Choice choice = choose();
  if (choice.refused != nullptr) refuse(choice.refused);
  return choice.own;
}

std::optional<Sgemm> as_sgemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                              bool accumulate) {
  if (out.scalar_type() != at::kFloat || chosen_own_products() != OwnProducts::kAll) return std::nullopt;
  Sgemm p{out.size(0), out.size(1), a.size(1)};
  p.a = a.const_data_ptr<float>(), p.a_row = a.stride(0), p.a_column = a.stride(1);
  p.b = b.const_data_ptr<float>(), p.b_row = b.stride(0), p.b_column = b.stride(1);
  p.c = out.mutable_data_ptr<float>(), p.c_row = out.stride(0);
  p.accumulate = accumulate;
  if (bias.defined()) p.bias = bias.const_data_ptr<float>();
  if (bias.defined() && (accumulate || (bias.stride(0) != 1 && p.n > 1))) return std::nullopt;
  if (p.n == 1 || out.stride(1) == 1) return p;
  if (p.bias == nullptr && (p.m == 1 || out.stride(0) == 1)) return turned(p, out.stride(1));
  return std::nullopt;
}

void sgemm(const Sgemm& product) {
  Sgemm p = product;
  if (p.m == 0 || p.n == 0) return;
  if (p.n == 1 && p.m > 1 && p.c_row == 1) {
    // A single column would leave 15 of 16 lanes empty.
    if (p.bias != nullptr) {
      std::fill(p.c, p.c + p.m, *p.bias);
      p.bias = nullptr;
      p.accumulate = true;
    }
    p = turned(p, 1);
  }
  const bool by_rows = p.m >= p.n;
  const int64_t unit = by_rows ? kTileRows : kTileColumns, extent = by_rows ? p.m : p.n;
  const int64_t work = std::max<int64_t>(1, unit * p.k * (by_rows ? p.n : p.m));
  at::parallel_for(0, (extent + unit - 1) / unit, std::max<int64_t>(1, kSerialWork / work),
                   [&](int64_t first, int64_t last) {
                     Sgemm part = p;
                     const int64_t from = first * unit, count = std::min(extent, last * unit) - from;
                     if (by_rows) {
                       part.m = count;
                       part.a += from * p.a_row;
                       part.c += from * p.c_row;
                     } else {
                       part.n = count;
                       part.b += from * p.b_column;
                       part.c += from;
                       if (p.bias != nullptr) part.bias += from;
                     }
                     multiply(part);
                   });
}

}  // namespace piper::kernels
