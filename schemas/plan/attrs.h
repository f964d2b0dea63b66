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

}  // namespace piper::plan
