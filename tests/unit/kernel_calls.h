// Kernel calls written by hand, for tests of the rules on numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/names.h"
#include "schemas/plan/plan.h"

namespace piper::plan::testing {

using Shape = std::vector<int64_t>;

// Dense where no strides are given.
inline Operand operand(int slot, Shape shape, Shape strides = {}, int64_t offset = 0, DType dtype = DType::kF32) {
  if (strides.empty()) strides = contiguous_strides(shape);
  return {slot, offset, dtype, std::move(shape), std::move(strides)};
}
inline Operand integers(int slot, Shape shape) { return operand(slot, std::move(shape), {}, 0, DType::kI64); }

inline KernelCall call(const std::string& kernel, std::vector<Operand> outputs, std::vector<Operand> inputs,
                       std::vector<Attr> attrs, bool accumulate = false) {
  KernelCall made;
  made.kernel = kernel;
  made.outputs = std::move(outputs);
  made.inputs = std::move(inputs);
  made.attrs = std::move(attrs);
  made.accumulate = accumulate;
  return made;
}
inline KernelCall call(const std::string& kernel, std::vector<Operand> outputs, std::vector<Operand> inputs,
                       bool accumulate = false) {
  return call(kernel, std::move(outputs), std::move(inputs), {}, accumulate);
}

}  // namespace piper::plan::testing
