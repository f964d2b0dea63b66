// The loops around the tile follow Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008): a block of b is packed into panels as wide as a tile that stay in the second-level
// cache, a block of a into strips as high as a tile unless its rows are dense, and a tile of sums stays in
// registers for the depth of a block.
#include "runtime/kernels/sgemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace piper::kernels {
namespace {

constexpr int64_t kDepth = 256;        // terms of a chain; a panel of b then fits the first-level cache
constexpr int64_t kWidthInTiles = 24;  // of a packed block of b
constexpr int64_t kHeightInTiles = 8;  // of a packed block of a

struct Packed {
  alignas(64) float b[kDepth * kWidthInTiles * kMostTileColumns];
  alignas(64) float a[kDepth * kHeightInTiles * kMostTileRows];
};
Packed& packed() {
  thread_local const std::unique_ptr<Packed> memory(new Packed);
  return *memory;
}

// One strip of a against all panels of a block of b.
void multiply_strip(const Tiles& tiles, TileOperands tile, int64_t rows, bool direct, int64_t columns, int64_t panel) {
  for (int64_t j = 0; j < columns; j += tiles.columns) {
    tile.columns = std::min(tiles.columns, columns - j);
    tiles.multiply(tile, rows, direct);
    tile.b += panel;
    tile.c += tiles.columns;
    if (tile.bias != nullptr) tile.bias += tiles.columns;
  }
}

// Columns [j0, j0 + width), terms [p0, p0 + depth).
void multiply_block(const Tiles& tiles, const Sgemm& p, int64_t j0, int64_t width, int64_t p0, int64_t depth) {
  // Rows 4 KiB apart would all lie in one set of the first-level cache.
  const bool direct_a = p.a_column == 1 && p.a_row % 1024 != 0;
  // Few rows of a do not repay the packing of b.
  const bool direct_b = p.b_column == 1 && p.m <= 3 * tiles.rows;
  Packed& memory = packed();
  const float* b = p.b + p0 * p.b_row + j0 * p.b_column;
  if (!direct_b) tiles.pack({b, p.b_column, p.b_row, width, depth}, memory.b, tiles.columns);
  TileOperands tile{};
  tile.depth = depth;
  tile.a_step = direct_a ? p.a_row : tiles.rows;
  tile.b = direct_b ? b : memory.b;
  tile.b_step = direct_b ? p.b_row : tiles.columns;
  tile.c_row = p.c_row;
  tile.bias = p.bias != nullptr && p0 == 0 ? p.bias + j0 : nullptr;
  tile.add = p.accumulate || p0 > 0;
  const int64_t panel = direct_b ? tiles.columns : tiles.columns * depth;
  const int64_t most = kHeightInTiles * tiles.rows;
  for (int64_t i0 = 0; i0 < p.m; i0 += most) {
    const int64_t height = std::min(most, p.m - i0);
    const float* a = p.a + i0 * p.a_row + p0 * p.a_column;
    if (!direct_a) tiles.pack({a, p.a_row, p.a_column, height, depth}, memory.a, tiles.rows);
    for (int64_t i = 0; i < height; i += tiles.rows) {
      tile.a = direct_a ? a + i * p.a_row : memory.a + i * depth;
      tile.c = p.c + (i0 + i) * p.c_row + j0;
      multiply_strip(tiles, tile, std::min(tiles.rows, height - i), direct_a, width, panel);
    }
  }
}

void multiply(const Tiles& tiles, const Sgemm& p) {
  const int64_t most = kWidthInTiles * tiles.columns;
  for (int64_t j0 = 0; j0 < p.n; j0 += most)
    // One block even where k is 0: it writes the bias.
    for (int64_t p0 = 0; p0 == 0 || p0 < p.k; p0 += kDepth)
      multiply_block(tiles, p, j0, std::min(most, p.n - j0), p0, std::min(kDepth, p.k - p0));
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
    return {{},
            "the environment variable PIPER_SGEMM asks for own products, but this processor cannot run their tiles"};
#if !defined(__x86_64__) || !defined(_OPENMP)
  // Without OpenMP sgemm() has one thread.
  if (wish == "") return {};
#endif
  if (!can_sgemm()) return {};
#if defined(__x86_64__)
  // The library runs its AVX2 kernels on AMD's processors, and with AVX2 alone ours are no faster than those.
  const bool faster = &chosen_tiles() == &kAvx512Tiles && __builtin_cpu_is("amd");
  if (all || (wish == "" && faster)) return {OwnProducts::kAll};
#endif
  return {OwnProducts::kAttention};
}

const Tiles* choose_tiles() {
  const char* text = std::getenv("PIPER_TILES");
  const std::string_view wish = text == nullptr ? "" : text;
  if (wish == "avx512") return &kAvx512Tiles;
  if (wish == "avx2") return &kAvx2Tiles;
  if (wish != "") return nullptr;
  return kAvx512Tiles.supported() ? &kAvx512Tiles : &kAvx2Tiles;
}

}  // namespace

const Tiles& chosen_tiles() {
  static const Tiles* const choice = choose_tiles();
  if (choice == nullptr) refuse("the environment variable PIPER_TILES is neither avx512 nor avx2");
  return *choice;
}

bool can_sgemm() { return chosen_tiles().supported(); }

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

void sgemm(const Sgemm& product, const Tiles& tiles) {
  Sgemm p = product;
  if (p.m == 0 || p.n == 0) return;
  if (p.n == 1 && p.m > 1 && p.c_row == 1) {
    // A single column would leave all lanes but one empty.
    if (p.bias != nullptr) {
      std::fill(p.c, p.c + p.m, *p.bias);
      p.bias = nullptr;
      p.accumulate = true;
    }
    p = turned(p, 1);
  }
  const bool by_rows = p.m >= p.n;
  const int64_t unit = by_rows ? tiles.rows : tiles.columns, extent = by_rows ? p.m : p.n;
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
                     multiply(tiles, part);
                   });
}

}  // namespace piper::kernels
