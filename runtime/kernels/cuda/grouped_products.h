// Launches of one matrix product for each expert, on the rows where they lie. How many rows an expert has only the
// device knows, and the host asks for none of it: the grid has a block for every tile that there could be, and blocks
// find theirs from the counts. LibTorch's `_grouped_mm` is not used: it makes its own result, takes bf16 and aligned
// rows on some GPUs alone, and elsewhere has the host read the counts, which no graph can capture. Halves are
// multiplied by tensor cores; sums are taken in f32 (f64 in f64), and are the same in every run.
#pragma once

#include "runtime/kernels/cuda/experts.h"

namespace piper::kernels::cuda {

// Elements between neighbours on both axes.
struct MatrixPlace {
  void* data = nullptr;
  int64_t row = 0, column = 0;
};

// y[r, :] (+)= x[r, :] w[e] for the rows r of expert e, and y[r, :] = 0 for padding.
struct GroupedMatmul {
  DType type = DType::kF32;
  int64_t inner = 0, columns = 0;
  MatrixPlace x, y, w;   // w: of an expert, [inner, columns]
  int64_t w_expert = 0;  // elements between experts
  GroupCounts counts;
  bool accumulate = false;
};
void launch_grouped_matmul(const GroupedMatmul& product, cudaStream_t stream);

// w[e] (+)= sum over the rows r of expert e of a[r, :]^T b[r, :]; 0 for an expert without rows.
struct GroupedMatmulWeight {
  DType type = DType::kF32;
  int64_t rows_of_w = 0, columns = 0;
  MatrixPlace a, b, w;
  int64_t w_expert = 0;
  GroupCounts counts;
  bool accumulate = false;
};
void launch_grouped_matmul_weight(const GroupedMatmulWeight& product, cudaStream_t stream);

}  // namespace piper::kernels::cuda
