// What a function takes that lists the members of a struct S: S for a reader, const S for a writer. Used by the lists
// of members of the plan's and the modules' texts.
#pragma once

#include <concepts>
#include <type_traits>

namespace piper {

template <class T, class S>
concept Of = std::same_as<std::remove_const_t<T>, S>;

}  // namespace piper
