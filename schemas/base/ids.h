// Strong 32-bit ids: an index into one dense vector, unmixable with other ids. Ordered and
// hashable; the default value is "none".
#pragma once

#include <cstddef>
#include <cstdint>
#include <typeindex>  // std::hash, in the smallest header that has it

namespace piper {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t index = kNone;

  constexpr Id() = default;
  constexpr explicit Id(size_t i) : index(static_cast<uint32_t>(i)) {}
  constexpr bool valid() const { return index != kNone; }
  friend constexpr bool operator==(Id a, Id b) { return a.index == b.index; }
  friend constexpr bool operator!=(Id a, Id b) { return a.index != b.index; }
  friend constexpr bool operator<(Id a, Id b) { return a.index < b.index; }
};

}  // namespace piper

template <class Tag>
struct std::hash<piper::Id<Tag>> {
  size_t operator()(piper::Id<Tag> id) const noexcept { return id.index; }
};
