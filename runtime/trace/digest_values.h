// The statistic of a value in host memory: digest, sum, largest magnitude, elements that are no finite numbers. For
// recording runs and for who looks for the first NaN; a step without either calls nothing here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/digest/digest_file.h"
#include "schemas/plan/plan.h"

namespace piper::trace {

// Bytes from the first element of a value to after its last one.
int64_t extent_bytes(const plan::Operand& value);
// `bytes`: extent_bytes() of them, strided as `value` says; its slot and offset mean nothing here.
digest::Statistic digest_values(const plan::Operand& value, const std::byte* bytes);
// Whether there is an element that is no number, or an infinite one. Types that have neither have none.
struct NotFinite {
  bool nan = false, infinite = false;
  bool any() const { return nan || infinite; }
};
NotFinite find_not_finite(const plan::Operand& value, const std::byte* bytes);
// XXH3-64 of plain bytes.
uint64_t digest_bytes(const void* bytes, int64_t count, uint64_t seed = 0);

}  // namespace piper::trace
