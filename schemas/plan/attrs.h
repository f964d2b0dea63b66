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

// Of an expert_order of a reference, and of no other: the rows are cut into so many parts, each of which has every time
// so many rows in a row, in turn, and the capacity is shared equally by the parts. No kernel does this: on several
// ranks each orders a part of its own.
inline constexpr const char* kPartsOfRows = "parts";
inline constexpr const char* kRowsOfPart = "run";

}  // namespace piper::plan
