// Elements of two bytes in the shim: the project's own conversions stand for CUDA's, which round alike.
#pragma once

#include <cstdint>

#include "schemas/plan/convert_elements.h"

namespace piper::shim {

template <DType kType>
struct HalfBits {
  uint16_t bits;
};
template <DType kType>
float widened(HalfBits<kType> x) {
  float value = 0;
  convert_elements(kType, &x, DType::kF32, &value, 1);
  return value;
}
template <DType kType>
HalfBits<kType> narrowed(float value) {
  HalfBits<kType> x;
  convert_elements(DType::kF32, &value, kType, &x, 1);
  return x;
}

}  // namespace piper::shim
