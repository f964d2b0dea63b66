// The rows of experts, read off the counts by every thread that asks. For .cu files.
#pragma once

#include "runtime/kernels/cuda/experts.h"
#include "runtime/kernels/cuda/report_fault.h"

namespace piper::kernels::cuda {

// Rows of an expert in a segment: never more than are left.
__device__ inline int64_t rows_of_expert(const GroupCounts& g, int64_t segment, int64_t expert, int64_t left) {
  const int64_t rows = g.data[segment * g.segment + expert * g.expert];
  if (rows >= 0 && rows <= left) return rows;
  report(g.fault, FaultKind::kGroup, expert, rows, left);
  return rows < 0 ? 0 : left;
}

// Rows that are together.
struct RowRange {
  int64_t first, count;
};
__device__ inline RowRange range_of_expert(const GroupCounts& g, int64_t segment, int64_t expert) {
  int64_t left = g.rows / g.segments, first = segment * left;
  for (int64_t e = 0; e < expert; ++e) {
    const int64_t rows = rows_of_expert(g, segment, e, left);
    first += rows;
    left -= rows;
  }
  return {first, rows_of_expert(g, segment, expert, left)};
}

}  // namespace piper::kernels::cuda
