// Rules on numbers: constants of one f32 element are their values, and those of bf16 have one. What a kernel that
// rounds as IEEE 754 says makes of such constants alone is the constant of that value; right because it has one value,
// and these bytes are it. Up to rounding, a quotient by one is the product with its reciprocal, and a mean the sum
// times the reciprocal of how many are added up. So it does not matter whether piperc divided when it made a plan, or
// the plan divides.
//
// Values are known of constants that the reference says, and of what is made of them; a plan's own that has other bytes
// is a constant of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "schemas/verify/numbers/number.h"

namespace piper::verify {

inline constexpr const char* kOfConstants = "what is made of constants alone, which piperc may have computed";
// Whether constants of one element of the type may have a value.
bool has_known_values(DType dtype);
// The number of a constant of one f32 element.
int32_t constant_of(float value, NumberTable& table);
// One over a number of bf16, not rounded to it: no number that a plan has, but it says by what is divided.
int32_t reciprocal_in_bf16(float value, NumberTable& table);
// x / c as x * (1 / c), where c has a value; nothing is changed otherwise.
void take_reciprocal(NumberTable::Made& made, NumberTable& table);
// The constant that a call makes of constants alone.
std::optional<int32_t> folded(const NumberTable::Made& made, NumberTable& table);

// What a product with one is: the other factor, all of it and as often as the product has it. -1: the call is none.
int32_t factor_beside_one(const NumberTable::Made& made, NumberTable& table);

}  // namespace piper::verify
