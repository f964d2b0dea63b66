#include "schemas/verify/numbers/shares.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/dtype.h"
#include "schemas/verify/numbers/constants.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {
namespace {

// A factor as it was before it was rounded: one over a number of samples or elements.
double unrounded(float value) {
  const double count = std::round(1 / static_cast<double>(value));
  return std::abs(count) < (1 << 24) && value == static_cast<float>(1 / count) ? 1 / count : value;
}

// Takes known factors out of a product.
void take_factors(View& value, double& times, NumberTable& table) {
  for (;;) {
    const Number& number = table[value.number];
    if (number.value && number.constant && number.bytes == sizeof(float)) {
      times *= unrounded(*number.value);
      value.number = constant_of(1, table);
      return;
    }
    if (!is_whole(value, table)) return;
    if (number.by == Kernel::kNeg && is_whole(number.operands[0], table)) {
      times = -times;
      value.number = number.operands[0].number;
      continue;
    }
    if (number.by != Kernel::kMul) return;
    std::optional<size_t> factor;
    for (size_t i = 0; i < 2 && !factor; ++i) {
      const View &by = number.operands[i], &other = number.operands[1 - i];
      if (by.number >= 0 && other.number >= 0 && table[by.number].value && table[by.number].constant &&
          has_known_values(by.dtype) && is_whole(other, table) && table[other.number].bytes == number.bytes)
        factor = i;
    }
    if (!factor) return;
    times *= unrounded(*table[number.operands[*factor].number].value);
    value.number = number.operands[1 - *factor].number;
  }
}

}  // namespace

int32_t share_of(View value, int64_t bytes, double times, NumberTable& table) {
  NumberTable::Made made;
  made.over = Over::kSum;
  made.bytes = bytes;
  if (const std::vector<int32_t> addends = table[value.number].addends; !addends.empty()) {
    made.by = Kernel::kAdd;
    for (const int32_t addend : addends) {
      value.number = addend;
      made.addends.push_back(share_of(value, bytes, times, table));
    }
    std::sort(made.addends.begin(), made.addends.end());
    return table.result(std::move(made));
  }
  made.program = table[value.number].program;
  made.call = table[value.number].call;
  take_factors(value, times, table);
  made.by = Maker::How::kShare;
  // As many digits of a small weight as of a large one; what differs by rounding, drop_equal_shares() joins.
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.6e", times);
  made.what = digits;
  made.times = times;
  // What is the same at all places is numbered by its places.
  const int64_t elements = bytes / dtype_bytes(value.dtype);
  if (is_whole(value, table)) value.axes = {{elements, elements == 1 ? 0 : 1, false}};
  else value.axes = joined_axes(value.axes);
  made.operands = {std::move(value)};
  return table.result(std::move(made));
}

bool same_value(int32_t a, int32_t b, const NumberTable& table) {
  const Number &x = table[a], &y = table[b];
  return x.by == Maker::How::kShare && y.by == Maker::How::kShare && x.operands == y.operands;
}

}  // namespace piper::verify
