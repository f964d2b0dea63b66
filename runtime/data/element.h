// Element types of data files, which may be narrower than a model's inputs, and their conversion:
// integers widen, everything else must be the input's own type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "schemas/plan/dtype.h"

namespace piper::data {

enum class Element : uint8_t { kBool, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kBF16, kF16, kF32, kF64 };

int64_t element_bytes(Element element);
std::string_view element_name(Element element);
Element element_of(DType dtype);
bool can_convert(Element from, DType to);
// `count` elements; can_convert() holds. The source may be unaligned.
void convert(Element from, const std::byte* source, DType to, std::byte* destination, int64_t count);

}  // namespace piper::data
