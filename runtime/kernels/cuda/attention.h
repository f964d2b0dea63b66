// Launches of scaled dot-product attention and its gradients, any types, strides and masks. What LibTorch's kernels
// serve does not come here (attention_rows.h); these are made to be right and to take no memory: a
// warp a query, or a key, with its sums in shared memory. A query that may attend to nothing gives 0, and gradient 0.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/attends_program.h"
#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// For a row of a head in the type that is computed in, at most: rows of a block's warps lie in shared memory.
inline constexpr int64_t kMostHeadBytes = 2048;

// [batch, heads, rows, head_dim]; elements between neighbours.
struct Heads {
  void* data = nullptr;  // nullptr: absent
  int64_t batch = 0, head = 0, row = 0, column = 0;
};
struct Attention {
  DType type = DType::kF32;
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, head_dim = 0;
  // low <= key - query <= high where a query may attend: causal attention has high = 0.
  int64_t low = 0, high = 0;
  AttendsProgram attends;  // which of those count
  double scale = 1;
  // [batch, heads, queries, keys], repeated by stride 0; added to the scores, or, of bool, which of them count.
  const void* mask = nullptr;
  bool mask_is_bool = false;
  int64_t mask_batch = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  Heads q, k, v, y;
  // log sum exp of the scores, of each query.
  float* lse = nullptr;  // nullptr: nobody asks
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  // For the backward. In f64 the statistics, which are saved in f32, are made again: [batch, heads, queries].
  Heads g, dq, dk, dv;
  double* exact_lse = nullptr;
};
void launch_attention(const Attention& a, cudaStream_t stream);
void launch_attention_backward(const Attention& a, cudaStream_t stream);

}  // namespace piper::kernels::cuda
