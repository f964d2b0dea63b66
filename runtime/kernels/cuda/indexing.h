// Launches that read or write elements where an index says. An index that is none is reported (FaultKind), and counts
// as if it were not there: zeros are read, nothing is written. Of several elements that go to one place sums are taken
// in their order, and the last one is what is written: the same bits in every run.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/fault.h"
#include "runtime/kernels/cuda/layout.h"
#include "runtime/kernels/cuda/own_part.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// y = x with the index's elements as places on one axis: embedding, gather, index_select.
struct LookUp {
  int element_bytes = 4;
  int64_t count = 0;  // elements of y
  void* y = nullptr;
  const void* x = nullptr;
  const int64_t* index = nullptr;
  Layout y_layout, x_layout, index_layout;  // of y's shape; x's without the axis
  int64_t x_step = 0, extent = 0;           // of x on the axis
  PlaceOfPart part;                         // of the axis; zeros are read of other places' elements
  FaultKind fault_kind = FaultKind::kIndex;
  FaultPlace fault;
};
void launch_look_up(const LookUp& look_up, cudaStream_t stream);

// y, at the index's places on one axis, becomes or takes in the source: scatter, scatter_add. `steps` elements along
// the axis are a line; a thread reads the indices of its line, so lines are best short.
struct Scatter {
  DType type = DType::kF32;
  bool adds = false;
  int64_t lines = 0, steps = 0;  // of the index
  void* y = nullptr;
  const void* source = nullptr;
  const int64_t* index = nullptr;
  Layout y_line, source_line, index_line;
  int64_t y_step = 0, source_step = 0, index_step = 0, extent = 0;  // extent: of y on the axis
  FaultPlace fault;
};
void launch_scatter(const Scatter& scatter, cudaStream_t stream);

// y[index[row]] += source[row]: index_add and the embedding's gradient. A block a row, of which the first with an index
// adds all.
struct AddRows {
  DType type = DType::kF32;
  int64_t rows = 0, columns = 0;
  void* y = nullptr;
  const void* source = nullptr;
  const int64_t* index = nullptr;
  Layout y_column, source_row, source_column, index_row;
  int64_t y_step = 0, extent = 0;  // between neighbours of y's rows; how many there are
  int64_t padding = -1;            // rows of this index are left out
  bool by_frequency = false;       // rows count 1 / (rows of their index)
  PlaceOfPart part;                // of y's rows; nothing is written for other places' rows
  FaultPlace fault;
};
void launch_add_rows(const AddRows& add, cudaStream_t stream);

}  // namespace piper::kernels::cuda
