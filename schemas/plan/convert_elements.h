// Elements of one floating-point type as another: f32, bf16 and f16, rounded to the nearest, ties to even, as PyTorch
// does. What loads weights, sums messages and updates parameters agrees by it on every bit.
#pragma once

#include <cstdint>

#include "schemas/plan/dtype.h"

namespace piper {

// Whether elements of the one are made of the other here: equal types always are.
constexpr bool can_convert_elements(DType from, DType to) {
  const auto known = [](DType type) { return type == DType::kF32 || is_half(type); };
  return from == to || (known(from) && known(to));
}
// `to` and `from` do not overlap, unless they are equal and so are the types. Checks can_convert_elements().
void convert_elements(DType from_type, const void* from, DType to_type, void* to, int64_t count);

}  // namespace piper
