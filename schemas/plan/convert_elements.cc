#include "schemas/plan/convert_elements.h"

#include <bit>
#include <cstring>

#include "schemas/base/check.h"
#include "schemas/base/clones.h"

namespace piper {
namespace {

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>(nan ? 0x7fc0 : rounded);
}
float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// For the value's own steps: 2^-24 below 2^-14, else 2^-10 of the power of two below.
uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
  if (size >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // from 65520 on: infinity
  if (size >= 0x38800000) {                                             // normal: exponent 127 becomes 15
    const uint32_t rounded = size + 0xfff + ((size >> 13) & 1);
    return static_cast<uint16_t>(sign | ((rounded - (uint32_t{112} << 23)) >> 13));
  }
  // Adding 0.5 leaves the number of steps in the last bits, rounded by the processor.
  const float steps = std::bit_cast<float>(size) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(steps) - 0x3f000000));
}
float from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1f,
                 fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float size = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(size));
}

PIPER_CLONES void narrow_bf16(const float* from, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}
PIPER_CLONES void narrow_f16(const float* from, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_f16(from[i]);
}
PIPER_CLONES void widen_bf16(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from_bf16(from[i]);
}
PIPER_CLONES void widen_f16(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from_f16(from[i]);
}

void narrow(const void* from, DType type, void* to, int64_t count) {
  const auto* values = static_cast<const float*>(from);
  auto* bits = static_cast<uint16_t*>(to);
  if (type == DType::kBF16) narrow_bf16(values, bits, count);
  else narrow_f16(values, bits, count);
}
void widen(DType type, const void* from, void* to, int64_t count) {
  const auto* bits = static_cast<const uint16_t*>(from);
  auto* values = static_cast<float*>(to);
  if (type == DType::kBF16) widen_bf16(bits, values, count);
  else widen_f16(bits, values, count);
}

}  // namespace

void convert_elements(DType from_type, const void* from, DType to_type, void* to, int64_t count) {
  PIPER_CHECK(can_convert_elements(from_type, to_type), dtype_name(from_type), " as ", dtype_name(to_type));
  if (from_type == to_type) {
    if (to != from && count > 0) std::memcpy(to, from, static_cast<size_t>(count * dtype_bytes(to_type)));
  } else if (from_type == DType::kF32) {
    narrow(from, to_type, to, count);
  } else if (to_type == DType::kF32) {
    widen(from_type, from, to, count);
  } else {
    constexpr int64_t kBlock = 256;
    float values[kBlock];
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t part = count - i < kBlock ? count - i : kBlock;
      widen(from_type, static_cast<const uint16_t*>(from) + i, values, part);
      narrow(values, to_type, static_cast<uint16_t*>(to) + i, part);
    }
  }
}

}  // namespace piper
