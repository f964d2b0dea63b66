#include "runtime/hal/cpu/position_sum.h"

#include "schemas/base/check.h"

namespace piper::hal {

namespace {

template <class T>
void add_typed(std::byte* dst, const std::byte* src, int64_t count) {
  T* to = reinterpret_cast<T*>(dst);
  const T* from = reinterpret_cast<const T*>(src);
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add(const PositionSum& sum, std::byte* dst, const std::byte* src, int64_t count) {
  switch (sum.dtype) {
    case DType::kF32: return sum.add_f32(reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), count);
    case DType::kF64: return add_typed<double>(dst, src, count);
    case DType::kI64: return add_typed<int64_t>(dst, src, count);
    case DType::kI32: return add_typed<int32_t>(dst, src, count);
    case DType::kBF16:
    case DType::kBool: break;
  }
  PIPER_CHECK(false, "sum of ", dtype_name(sum.dtype));
}

}  // namespace

bool can_sum(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kI64:
    case DType::kI32: return true;
    case DType::kBF16:
    case DType::kBool: return false;
  }
  return false;
}

void PositionSum::add_piece(std::byte* own, int64_t count) const {
  if (count == 0) return;
  // Positions before this one are summed in the first part's place; adding that to the own values is
  // the same sum (x + y = y + x, bit by bit), and saves a copy.
  for (int64_t place = 1; place < position; ++place) add(*this, scratch, scratch + place * stride, count);
  if (position > 0) add(*this, own, scratch, count);
  for (int64_t place = position; place < members - 1; ++place) add(*this, own, scratch + place * stride, count);
}

}  // namespace piper::hal
