#include "runtime/hal/cpu/position_sum.h"

#include <algorithm>

#include "schemas/base/check.h"
#include "schemas/plan/convert_elements.h"

namespace piper::hal {

namespace {

template <class T>
void add_typed(std::byte* dst, const std::byte* src, int64_t count) {
  T* to = reinterpret_cast<T*>(dst);
  const T* from = reinterpret_cast<const T*>(src);
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add(const PositionSum& sum, std::byte* dst, const std::byte* src, int64_t count) {
  switch (sum.types.data) {
    case DType::kF32: return sum.add_f32(reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), count);
    case DType::kF64: return add_typed<double>(dst, src, count);
    case DType::kI64: return add_typed<int64_t>(dst, src, count);
    case DType::kI32: return add_typed<int32_t>(dst, src, count);
    case DType::kBF16:
    case DType::kF16:
    case DType::kBool: break;
  }
  PIPER_CHECK(false, "sum of ", dtype_name(sum.types.data));
}

bool adds_as_they_are(const plan::SumTypes& types) {
  return types == plan::SumTypes(types.data) && !is_half(types.data) && types.data != DType::kBool;
}

}  // namespace

bool can_sum(const plan::SumTypes& types) {
  if (adds_as_they_are(types)) return true;
  return types.sum == DType::kF32 && can_convert_elements(types.data, types.message) &&
         can_convert_elements(types.message, DType::kF32);
}

void PositionSum::add_piece(std::byte* own, std::byte* out, int64_t count) const {
  if (count == 0) return;
  if (!adds_as_they_are(types)) return add_in_f32(own, out, count);
  // Positions before this one are summed in the first part's place; adding that to the own values is
  // the same sum (x + y = y + x, bit by bit), and saves a copy.
  for (int64_t place = 1; place < position; ++place) add(*this, scratch, scratch + place * stride, count);
  if (position > 0) add(*this, own, scratch, count);
  for (int64_t place = position; place < members - 1; ++place) add(*this, own, scratch + place * stride, count);
}

void PositionSum::add_in_f32(const std::byte* own, std::byte* out, int64_t count) const {
  constexpr int64_t kBlock = 1024;
  float sum[kBlock], addend[kBlock];
  const int64_t element = dtype_bytes(types.message);
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t part = std::min(kBlock, count - first);
    for (int64_t member = 0; member < members; ++member) {
      const std::byte* from = (member == position ? own : place_of(member)) + first * element;
      convert_elements(types.message, from, DType::kF32, member == 0 ? sum : addend, part);
      if (member > 0) add_f32(sum, addend, part);
    }
    convert_elements(DType::kF32, sum, types.data, out + first * dtype_bytes(types.data), part);
  }
}

}  // namespace piper::hal
