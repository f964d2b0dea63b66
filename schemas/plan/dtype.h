// Element types of tensors, in model graphs and in plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace piper {

enum class DType : uint8_t { kF32, kF64, kBF16, kF16, kI64, kI32, kBool };

constexpr int64_t dtype_bytes(DType t) {
  switch (t) {
    case DType::kF32: return 4;
    case DType::kF64: return 8;
    case DType::kBF16:
    case DType::kF16: return 2;
    case DType::kI64: return 8;
    case DType::kI32: return 4;
    case DType::kBool: return 1;
  }
  return 0;
}
// The name in plans and .pir text: "f32", "f64", "bf16", "f16", "i64", "i32", "bool".
constexpr std::string_view dtype_name(DType t) {
  switch (t) {
    case DType::kF32: return "f32";
    case DType::kF64: return "f64";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "f16";
    case DType::kI64: return "i64";
    case DType::kI32: return "i32";
    case DType::kBool: return "bool";
  }
  return "";
}
constexpr std::optional<DType> dtype_from_name(std::string_view name) {
  for (DType t : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kBool})
    if (dtype_name(t) == name) return t;
  return std::nullopt;
}
// bf16 and f16: half the bytes of f32, and sums of them are taken in f32.
constexpr bool is_half(DType t) { return t == DType::kBF16 || t == DType::kF16; }
constexpr bool is_floating(DType t) { return t == DType::kF32 || t == DType::kF64 || is_half(t); }

}  // namespace piper
