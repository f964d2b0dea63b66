// Many short lists in one piece of memory, for readers of values and neighbours of nodes: made once, then read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace piper {

template <class T>
class FlatLists {
 public:
  FlatLists() = default;
  // `visit(add)` calls add(list, item) for every item, lists in any order, the items of a list in theirs. It is called
  // twice, to count and to fill, and must do the same both times.
  template <class Visit>
  FlatLists(size_t lists, const Visit& visit) : ends_(lists + 1, 0) {
    visit([this](size_t list, const T&) { ++ends_[list + 1]; });
    for (size_t list = 0; list < lists; ++list) ends_[list + 1] += ends_[list];
    items_.resize(ends_[lists]);
    // While it fills, ends_[list] is where the list's next item goes: at last where the next list begins.
    visit([this](size_t list, const T& item) { items_[ends_[list]++] = item; });
  }
  size_t size() const { return ends_.empty() ? 0 : ends_.size() - 1; }
  std::span<const T> operator[](size_t list) const {
    const uint32_t begin = list == 0 ? 0 : ends_[list - 1];
    return {items_.data() + begin, ends_[list] - begin};
  }

 private:
  std::vector<uint32_t> ends_;  // [list], and the number of items
  std::vector<T> items_;
};

}  // namespace piper
