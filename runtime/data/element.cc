#include "runtime/data/element.h"

#include <cstring>

#include "schemas/base/check.h"

namespace piper::data {

int64_t element_bytes(Element element) {
  switch (element) {
    case Element::kBool:
    case Element::kI8:
    case Element::kU8: return 1;
    case Element::kI16:
    case Element::kU16:
    case Element::kBF16:
    case Element::kF16: return 2;
    case Element::kI32:
    case Element::kU32:
    case Element::kF32: return 4;
    case Element::kI64:
    case Element::kF64: return 8;
  }
  return 0;
}

std::string_view element_name(Element element) {
  switch (element) {
    case Element::kBool: return "bool";
    case Element::kI8: return "i8";
    case Element::kU8: return "u8";
    case Element::kI16: return "i16";
    case Element::kU16: return "u16";
    case Element::kI32: return "i32";
    case Element::kU32: return "u32";
    case Element::kI64: return "i64";
    case Element::kBF16: return "bf16";
    case Element::kF16: return "f16";
    case Element::kF32: return "f32";
    case Element::kF64: return "f64";
  }
  return "";
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return Element::kF32;
    case DType::kF64: return Element::kF64;
    case DType::kBF16: return Element::kBF16;
    case DType::kF16: return Element::kF16;
    case DType::kI64: return Element::kI64;
    case DType::kI32: return Element::kI32;
    case DType::kBool: return Element::kBool;
  }
  return Element::kF32;
}

bool can_convert(Element from, DType to) {
  if (from == element_of(to)) return true;
  switch (from) {
    case Element::kI8:
    case Element::kU8:
    case Element::kI16:
    case Element::kU16: return to == DType::kI32 || to == DType::kI64;
    case Element::kI32:
    case Element::kU32: return to == DType::kI64;
    case Element::kBool:
    case Element::kI64:
    case Element::kBF16:
    case Element::kF16:
    case Element::kF32:
    case Element::kF64: return false;
  }
  return false;
}

namespace {

template <class From, class To>
void widen(const std::byte* source, std::byte* destination, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, source + i * static_cast<int64_t>(sizeof(From)), sizeof value);
    const To wide = value;
    std::memcpy(destination + i * static_cast<int64_t>(sizeof(To)), &wide, sizeof wide);
  }
}

template <class From>
void widen_to(const std::byte* source, DType to, std::byte* destination, int64_t count) {
  PIPER_CHECK(to == DType::kI64 || sizeof(From) < 4, "widening to ", dtype_name(to));
  if (to == DType::kI64) return widen<From, int64_t>(source, destination, count);
  if constexpr (sizeof(From) < 4) widen<From, int32_t>(source, destination, count);
}

}  // namespace

void convert(Element from, const std::byte* source, DType to, std::byte* destination, int64_t count) {
  if (from == element_of(to)) {
    std::memcpy(destination, source, static_cast<size_t>(count * element_bytes(from)));
    return;
  }
  switch (from) {
    case Element::kI8: return widen_to<int8_t>(source, to, destination, count);
    case Element::kU8: return widen_to<uint8_t>(source, to, destination, count);
    case Element::kI16: return widen_to<int16_t>(source, to, destination, count);
    case Element::kU16: return widen_to<uint16_t>(source, to, destination, count);
    case Element::kI32: return widen_to<int32_t>(source, to, destination, count);
    case Element::kU32: return widen_to<uint32_t>(source, to, destination, count);
    case Element::kBool:
    case Element::kI64:
    case Element::kBF16:
    case Element::kF16:
    case Element::kF32:
    case Element::kF64: break;
  }
  PIPER_CHECK(false, "converting ", element_name(from), " to ", dtype_name(to));
}

}  // namespace piper::data
