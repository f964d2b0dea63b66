// Launches for rows in groups of experts: the order of the rows, reading rows by it, and one entry for each group.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/fault.h"
#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// A list of numbers on the device, `step` elements apart.
struct Numbers {
  int64_t* data = nullptr;  // nullptr: absent
  int64_t step = 1;
};
struct ExpertOrder {
  int64_t rows = 0, experts = 0, segments = 1, capacity = 0, segment_rows = 0;
  bool strict = false;        // rows over the capacity are a fault
  Numbers ids;                // [rows]
  Numbers order;              // [segments * segment_rows]
  Numbers position;           // [rows]
  int64_t* counts = nullptr;  // [segments, experts / segments]; nullptr: nobody asks
  int64_t counts_segment = 0, counts_expert = 0;
  int64_t* dropped = nullptr;
  int64_t* asked = nullptr;  // [experts], of the kernel's own
  FaultPlace fault;
};
void launch_expert_order(const ExpertOrder& order, cudaStream_t stream);

// Rows of `columns` elements.
struct GroupRows {
  void* data = nullptr;
  int64_t row = 0;  // elements between neighbours
  Layout column;
};
// counts [segments, experts] of `rows` rows.
struct GroupCounts {
  const int64_t* data = nullptr;
  int64_t segment = 0, expert = 0;  // elements between neighbours
  int64_t segments = 1, experts = 1, rows = 0;
  FaultPlace fault;
};

struct TakeRows {
  int element_bytes = 4;
  int64_t rows = 0, columns = 0, repeat = 1, indices = 0;  // of y; rows of x times repeat
  GroupRows x, y;
  Numbers index;  // -1: zeros
  FaultPlace fault;
};
void launch_take_rows(const TakeRows& take, cudaStream_t stream);

struct GroupedExpand {
  int element_bytes = 4;
  int64_t columns = 0;
  GroupRows table, y;  // [experts], [rows]
  GroupCounts counts;
};
void launch_grouped_expand(const GroupedExpand& expand, cudaStream_t stream);

struct GroupedSum {
  DType type = DType::kF32;
  int64_t columns = 0;
  GroupRows x, sum;  // [rows], [experts]
  GroupCounts counts;
  bool accumulate = false;
  bool from_sum = false;  // rows are added onto what is there, one by one, instead of their sum
};
void launch_grouped_sum(const GroupedSum& sum, cudaStream_t stream);

}  // namespace piper::kernels::cuda
