#include "runtime/hal/cpu/position_sum.h"

#include <algorithm>
#include <cstddef>
#include <string>

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

void add(DType type, AddF32 add_f32, std::byte* dst, const std::byte* src, int64_t count) {
  switch (type) {
    case DType::kF32: return add_f32(reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), count);
    case DType::kF64: return add_typed<double>(dst, src, count);
    case DType::kI64: return add_typed<int64_t>(dst, src, count);
    case DType::kI32: return add_typed<int32_t>(dst, src, count);
    case DType::kBF16:
    case DType::kF16:
    case DType::kBool: break;
  }
  PIPER_CHECK(false, "sum of ", dtype_name(type));
}

void add_halves(const PieceSum& sum, AddF32 add_f32) {
  constexpr int64_t kBlock = 1024;
  float total[kBlock], addend[kBlock];
  const int64_t element = dtype_bytes(sum.message);
  for (int64_t first = 0; first < sum.count; first += kBlock) {
    const int64_t part = std::min(kBlock, sum.count - first);
    for (int64_t member = 0; member < sum.members; ++member) {
      const Address from = (member == sum.position ? sum.own : sum.place_of(member)) + first * element;
      convert_elements(sum.message, from.in_device(), DType::kF32, member == 0 ? total : addend, part);
      if (member > 0) add_f32(total, addend, part);
    }
    convert_elements(DType::kF32, total, sum.message, (sum.own + first * element).in_device(), part);
  }
}

}  // namespace

Status check_sum(const PieceSum& sum) {
  const bool as_it_is = sum.sum == sum.message && !is_half(sum.message) && sum.message != DType::kBool;
  if (as_it_is || (is_half(sum.message) && sum.sum == DType::kF32)) return {};
  return Status::failure("R0404", "CPU ranks cannot sum " + std::string(dtype_name(sum.message)) + " as " +
                                      std::string(dtype_name(sum.sum)));
}

// Positions before this one are summed in the first one's place; adding that to the own values is the same sum
// (x + y = y + x, bit by bit), and saves a copy.
void add_piece(const PieceSum& sum, AddF32 add_f32) {
  if (is_half(sum.message)) return add_halves(sum, add_f32);
  std::byte *const own = sum.own.in_device(), *const others = sum.others.in_device();
  const auto place = [&](int64_t i) { return others + i * sum.stride; };
  for (int64_t i = 1; i < sum.position; ++i) add(sum.message, add_f32, others, place(i), sum.count);
  if (sum.position > 0) add(sum.message, add_f32, own, others, sum.count);
  for (int64_t i = sum.position; i < sum.members - 1; ++i) add(sum.message, add_f32, own, place(i), sum.count);
}

}  // namespace piper::hal
