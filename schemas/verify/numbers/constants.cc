#include "schemas/verify/numbers/constants.h"

#include <cmath>
#include <string>
#include <vector>

#include "schemas/plan/file_bytes.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {
namespace {

// For operators that are exact up to one rounding.
std::optional<float> computed(const Maker& by, const std::vector<float>& x) {
  if (x.size() == 2) {
    if (by == Kernel::kAdd) return x[0] + x[1];
    if (by == Kernel::kSub) return x[0] - x[1];
    if (by == Kernel::kMul) return x[0] * x[1];
    if (by == Kernel::kDiv) return x[0] / x[1];
  }
  if (x.size() == 1) {
    if (by == Kernel::kNeg) return -x[0];
    if (by == Kernel::kReciprocal) return 1 / x[0];
    if (by == Kernel::kSqrt) return std::sqrt(x[0]);
  }
  return std::nullopt;
}

}  // namespace

bool has_known_values(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

int32_t constant_of(float value, NumberTable& table) {
  const std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
  return table.constant("constant " + plan::sha256(bytes), sizeof value, value);
}

int32_t reciprocal_in_bf16(float value, NumberTable& table) {
  return table.constant("reciprocal in bf16 of " + std::to_string(value), dtype_bytes(DType::kBF16), 1 / value);
}

void take_reciprocal(NumberTable::Made& made, NumberTable& table) {
  if (made.by != Kernel::kDiv || made.operands.size() != 2 || made.operands[1].number < 0) return;
  const std::optional<float> by = table[made.operands[1].number].value;
  const DType dtype = made.operands[1].dtype;
  if (!by || !has_known_values(dtype) || !std::isnormal(*by) || !std::isnormal(1 / *by)) return;
  made.by = Kernel::kMul;
  made.divided = true;
  made.operands[1].number = dtype == DType::kF32 ? constant_of(1 / *by, table) : reciprocal_in_bf16(*by, table);
}

std::optional<int32_t> folded(const NumberTable::Made& made, NumberTable& table) {
  if (made.over != Over::kNothing || made.bytes != sizeof(float)) return std::nullopt;
  std::vector<float> values;
  for (const View& view : made.operands) {
    if (view.number < 0 || view.dtype != DType::kF32 || !table[view.number].value) return std::nullopt;
    values.push_back(*table[view.number].value);
  }
  const std::optional<float> value = computed(made.by, values);
  if (!value) return std::nullopt;
  const int32_t constant = constant_of(*value, table);
  table.fold(constant);
  return constant;
}

int32_t factor_beside_one(const NumberTable::Made& made, NumberTable& table) {
  if (made.by != Kernel::kMul || made.operands.size() != 2) return -1;
  const int32_t one = constant_of(1, table);
  for (size_t i = 0; i < 2; ++i) {
    const View& other = made.operands[1 - i];
    if (made.operands[i].number != one || other.number < 0 || other.dtype != DType::kF32) continue;
    const Number& number = table[other.number];
    if (number.bytes == made.bytes && number.over == made.over && is_whole(other, table)) return other.number;
  }
  return -1;
}

}  // namespace piper::verify
