// The shim's tensor cores: products of a warp on 16 x 16 tiles (nvcuda::wmma). Every lane has the whole tiles, so that
// what a lane holds of one, which CUDA leaves open, cannot be relied on: elements are reached by load and store alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Order = void>
class fragment {
  static_assert(M == 16 && N == 16 && K == 16);

 public:
  T tile[16][16];
};

template <class Use, class T, class Order>
void fill_fragment(fragment<Use, 16, 16, 16, T, Order>& f, T value) {
  for (auto& row : f.tile)
    for (T& element : row) element = value;
}
// CUDA wants 32 bytes of alignment and rows of whole 16 bytes.
inline void want_place(const void* place, size_t row_bytes, std::source_location where) {
  if (reinterpret_cast<uintptr_t>(place) % 32 != 0 || row_bytes % 16 != 0)
    piper::shim::fail("a tile of tensor cores at ", place, " is not aligned", where);
}
template <class Use, class T, class Order>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Order>& f, const T* from, unsigned row,
                      std::source_location where = std::source_location::current()) {
  want_place(from, row * sizeof(T), where);
  __syncwarp(0xffffffffu, where);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) f.tile[i][j] = from[i * row + static_cast<unsigned>(j)];
}
template <class T>
void store_matrix_sync(T* to, const fragment<accumulator, 16, 16, 16, T>& f, unsigned row, layout_t,
                       std::source_location where = std::source_location::current()) {
  want_place(to, row * sizeof(T), where);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) to[i * row + static_cast<unsigned>(j)] = f.tile[i][j];
  __syncwarp(0xffffffffu, where);
}
inline float wide(__half x) { return __half2float(x); }
inline float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, T, row_major>& a,
              const fragment<matrix_b, 16, 16, 16, T, row_major>& b, const fragment<accumulator, 16, 16, 16, float>& c,
              std::source_location where = std::source_location::current()) {
  __syncwarp(0xffffffffu, where);
  float left[16][16], right[16][16];
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      left[i][j] = wide(a.tile[i][j]);
      right[i][j] = wide(b.tile[i][j]);
    }
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      float sum = c.tile[i][j];
      for (int k = 0; k < 16; ++k) sum += left[i][k] * right[k][j];
      d.tile[i][j] = sum;
    }
}

}  // namespace nvcuda::wmma
