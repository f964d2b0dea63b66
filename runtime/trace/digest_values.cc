#include "runtime/trace/digest_values.h"

// Nothing to link: the runtime is built on machines that have few libraries.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "schemas/plan/convert_elements.h"

namespace piper::trace {

namespace {

constexpr int64_t kBlock = 4096;  // elements that are widened at a time

// Calls body(bytes, count) for each run of elements that are one after the other, in row-major order.
template <class Body>
void for_each_run(const plan::Operand& value, const std::byte* bytes, Body&& body) {
  const size_t element = static_cast<size_t>(dtype_bytes(value.dtype));
  size_t axes = value.shape.size();
  int64_t dense = 1;  // elements of the innermost axes that are one run
  while (axes > 0 && (value.strides[axes - 1] == dense || value.shape[axes - 1] == 1)) dense *= value.shape[--axes];
  if (std::any_of(value.shape.begin(), value.shape.end(), [](int64_t extent) { return extent == 0; })) return;
  std::vector<int64_t> at(axes, 0);
  int64_t offset = 0;
  for (;;) {
    body(bytes + static_cast<size_t>(offset) * element, dense);
    size_t axis = axes;
    while (axis > 0 && ++at[axis - 1] == value.shape[axis - 1]) {
      offset -= (value.shape[axis - 1] - 1) * value.strides[axis - 1];
      at[--axis] = 0;
    }
    if (axis == 0) return;
    offset += value.strides[axis - 1];
  }
}

template <class T>
void add_elements(const std::byte* bytes, int64_t count, digest::Statistic& statistic) {
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + static_cast<size_t>(i) * sizeof element, sizeof element);
    const auto wide = static_cast<double>(element);
    if (!std::isfinite(wide)) {
      ++statistic.not_finite;
      continue;
    }
    statistic.sum += wide;
    statistic.largest = std::max(statistic.largest, std::abs(wide));
  }
}

// Calls body(floats, count) on f32 copies of bf16 and f16 elements.
template <class Body>
void widen(DType dtype, const std::byte* bytes, int64_t count, Body&& body) {
  float wide[kBlock];
  const auto element = static_cast<size_t>(dtype_bytes(dtype));
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t some = std::min(kBlock, count - at);
    convert_elements(dtype, bytes + static_cast<size_t>(at) * element, DType::kF32, wide, some);
    body(reinterpret_cast<const std::byte*>(wide), some);
  }
}

void add_run(DType dtype, const std::byte* bytes, int64_t count, digest::Statistic& statistic) {
  switch (dtype) {
    case DType::kF32: return add_elements<float>(bytes, count, statistic);
    case DType::kF64: return add_elements<double>(bytes, count, statistic);
    case DType::kI64: return add_elements<int64_t>(bytes, count, statistic);
    case DType::kI32: return add_elements<int32_t>(bytes, count, statistic);
    case DType::kBool: return add_elements<uint8_t>(bytes, count, statistic);
    case DType::kBF16:
    case DType::kF16:
      return widen(dtype, bytes, count,
                   [&statistic](const std::byte* wide, int64_t some) { add_elements<float>(wide, some, statistic); });
  }
}

template <class T>
void look_at(const std::byte* bytes, int64_t count, NotFinite& found) {
  // x * 0 is 0 for finite numbers alone, and a sum of these is as fast as memory.
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + static_cast<size_t>(i) * sizeof element, sizeof element);
    sum += element * T{0};
  }
  if (sum == 0) return;
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + static_cast<size_t>(i) * sizeof element, sizeof element);
    found.nan = found.nan || std::isnan(element);
    found.infinite = found.infinite || std::isinf(element);
  }
}

}  // namespace

int64_t extent_bytes(const plan::Operand& value) {
  int64_t last = 0;
  for (size_t axis = 0; axis < value.shape.size(); ++axis) {
    if (value.shape[axis] == 0) return 0;
    last += (value.shape[axis] - 1) * value.strides[axis];
  }
  return (last + 1) * dtype_bytes(value.dtype);
}

digest::Statistic digest_values(const plan::Operand& value, const std::byte* bytes) {
  digest::Statistic statistic;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const auto element = static_cast<size_t>(dtype_bytes(value.dtype));
  for_each_run(value, bytes, [&](const std::byte* run, int64_t count) {
    XXH3_64bits_update(&state, run, static_cast<size_t>(count) * element);
    add_run(value.dtype, run, count, statistic);
  });
  statistic.digest = XXH3_64bits_digest(&state);
  return statistic;
}

NotFinite find_not_finite(const plan::Operand& value, const std::byte* bytes) {
  NotFinite found;
  for_each_run(value, bytes, [&](const std::byte* run, int64_t count) {
    if (value.dtype == DType::kF32) look_at<float>(run, count, found);
    if (value.dtype == DType::kF64) look_at<double>(run, count, found);
    if (is_half(value.dtype))
      widen(value.dtype, run, count,
            [&found](const std::byte* wide, int64_t some) { look_at<float>(wide, some, found); });
  });
  return found;
}

uint64_t digest_bytes(const void* bytes, int64_t count, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, static_cast<size_t>(count), seed);
}

}  // namespace piper::trace
