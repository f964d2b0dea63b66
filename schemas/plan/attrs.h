// Attributes of kernel calls by name. Used by those who read plans: what a name means is said in compiler/ir/ops.def.
#pragma once

#include <string_view>
#include <variant>

#include "schemas/plan/plan.h"

namespace piper::plan {

// nullptr: the call has none of this name and type.
template <class T>
T* find_attr(KernelCall& call, std::string_view name) {
  for (Attr& attr : call.attrs)
    if (attr.name == name) return std::get_if<T>(&attr.value);
  return nullptr;
}
template <class T>
const T* find_attr(const KernelCall& call, std::string_view name) {
  for (const Attr& attr : call.attrs)
    if (attr.name == name) return std::get_if<T>(&attr.value);
  return nullptr;
}

// Whether a call fills its result with zeros.
inline bool is_zero_fill(const KernelCall& call) {
  const auto* const real = find_attr<double>(call, "value");
  const auto* const integer = find_attr<int64_t>(call, "value");
  return call.kernel == Kernel::kFill && ((real != nullptr && *real == 0) || (integer != nullptr && *integer == 0));
}

// Attributes that an expert_order of a reference may have, and no other call: the rows are in so many parts, so many
// rows of one after so many of another, and the parts share the capacity equally. No kernel does this: each of several
// ranks orders one part.
inline constexpr const char* kPartsOfRows = "parts";
inline constexpr const char* kRowsOfPart = "run";

}  // namespace piper::plan
