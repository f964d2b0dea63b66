// Products of f32 matrices by own kernels for AVX-512 and AVX2, for processors where they are faster than LibTorch's
// library (see chosen_own_products). Used by every kernel of this folder that multiplies matrices.
//
// An element of c is one chain of fused multiply-adds over k, cut after every 256 terms; the parts are added
// in order. So its bits depend on its row of a, its column of b and the bias alone: not on the number of
// rows or columns, their strides, the number of threads, or the instruction set.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/sgemm_tile.h"

namespace piper::kernels {

// c[m, n] = a[m, k] b[k, n] + bias[n], or c += a b. Strides in elements; rows of c are dense. c shares no byte
// with a, b or bias.
struct Sgemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_column = 0;
  const float* b = nullptr;
  int64_t b_row = 0, b_column = 0;
  float* c = nullptr;
  int64_t c_row = 0;
  const float* bias = nullptr;  // nullptr: none; none where the product accumulates
  bool accumulate = false;
};

// AVX-512 where the processor has it, else AVX2. The environment variable PIPER_TILES says otherwise: `avx512` or
// `avx2`. Refuses another value.
const Tiles& chosen_tiles();
// Whether this processor can run them.
bool can_sgemm();

// Multiply-adds that are not worth a second thread.
inline constexpr int64_t kSerialWork = 1 << 20;

// Which products of this process are sgemm()'s. On AMD's processors with AVX-512 all, on others with AVX-512 those
// inside of attention, with AVX2 alone and in programs built without OpenMP (clang) none. The environment variable
// PIPER_SGEMM says otherwise: `own` (all), `attention`, `library` (none). Refuses another value, and the first two
// where the processor cannot run them.
enum class OwnProducts : uint8_t { kNone, kAttention, kAll };
OwnProducts chosen_own_products();

// out (+)= a b + bias on views of rank 2, `bias` dense or undefined. Nothing where the library computes it:
// chosen_own_products() says so, the elements are not f32, or `out` is dense along neither axis that sgemm() can write.
std::optional<Sgemm> as_sgemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                              bool accumulate);

// Only where the processor supports `tiles`. Packs operands into 1 MiB that each thread keeps from its first call on.
void sgemm(const Sgemm& product, const Tiles& tiles = chosen_tiles());

}  // namespace piper::kernels
