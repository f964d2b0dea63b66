#include "schemas/plan/argument_lists.h"

#include <algorithm>

namespace piper::plan {

std::vector<ArgumentLists::Own>::const_iterator ArgumentLists::place(size_t index) const {
  return std::lower_bound(own_.begin(), own_.end(), index, [](const Own& own, size_t i) { return own.index < i; });
}

const ArgumentList& ArgumentLists::own_or_shared(size_t index) const {
  const auto at = place(index);
  return at != own_.end() && at->index == index ? at->list : shared_[index];
}

void ArgumentLists::set_own(size_t index, ArgumentList list) {
  const auto at = own_.begin() + (place(index) - own_.cbegin());
  if (at != own_.end() && at->index == index) at->list = std::move(list);
  else own_.insert(at, {index, std::move(list)});
}

std::vector<ArgumentList>& ArgumentLists::edit() {
  std::vector<ArgumentList>& lists = shared_.edit();
  for (Own& own : own_) lists[own.index] = std::move(own.list);
  own_.clear();
  return lists;
}

}  // namespace piper::plan
