// Which rows of a table, or which classes, a call has at its place of a cut: the operand `place` says it when the
// kernel runs, the attribute `whole` how many there are at all places together. Used by look-ups and losses of the CPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernels/binding.h"

namespace piper::kernels {

struct OwnPart {
  int64_t first = 0, count = 0;  // of the whole; past `count` the call's operand has rows that are none
  int64_t whole = 0;
  bool has(int64_t index) const { return index >= first && index < first + count; }
};

class PlaceOfPart {
 public:
  // `extent`: what the operand has along the axis that is cut. Without a place that is all.
  PlaceOfPart(const Call& call, const at::Tensor& place, int64_t extent) : place_(place), extent_(extent) {
    whole_ = place.defined() ? call.attr_int("whole") : extent;
    if (!place.defined()) return;
    want_dtype(place, at::kLong, "the place");
    want_shape(place, {1}, "the place");
  }
  bool is_part() const { return place_.defined(); }
  OwnPart now() const {
    const int64_t first = is_part() ? place_.const_data_ptr<int64_t>()[0] * extent_ : 0;
    return {first, std::clamp<int64_t>(whole_ - first, 0, extent_), whole_};
  }

 private:
  at::Tensor place_;
  int64_t extent_, whole_;
};

}  // namespace piper::kernels
