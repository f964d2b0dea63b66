// Integers on their way into the attributes and scalars of ops, which are doubles.
#pragma once

#include <cmath>

#include "schemas/plan/dtype.h"

namespace piper::frontend {

// Whether `number` is what the model says where a tensor of this type holds it: a double is every integer below 2^53
// and rounds those from there on.
inline bool is_exact(DType dtype, double number) {
  return (dtype != DType::kI64 && dtype != DType::kI32) || std::abs(number) < 0x1p53;
}

}  // namespace piper::frontend
