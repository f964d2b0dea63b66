// Where a query attends to a key, as kernels of GPUs have it: the steps of the predicate (schemas/forms/attends.h), by
// value, and the vectors that they read.
#pragma once

#include <cstdint>

#include "schemas/forms/form_program.h"

namespace piper::kernels::cuda {

struct AttendsProgram {
  form::Step steps[form::kMostSteps];
  int count = 0;  // 0: wherever the band is
  // [batch, vectors, places]; elements between neighbours.
  const int64_t* vectors = nullptr;
  int64_t batch = 0, vector = 0, place = 0;
};

}  // namespace piper::kernels::cuda
