// Integers on their way into the attributes and scalars of ops, which are doubles.
#pragma once

#include <cmath>

#include "schemas/plan/dtype.h"

namespace piper::frontend {

// Whether `number` is what the model says where a tensor of this type holds it: a double is every integer below 2^53
// and rounds those from there on.
inline bool is_exact(DType dtype, double number) {
  if (dtype == DType::kI32) return number >= -0x1p31 && number < 0x1p31;
  return dtype != DType::kI64 || std::abs(number) < 0x1p53;
}

}  // namespace piper::frontend
