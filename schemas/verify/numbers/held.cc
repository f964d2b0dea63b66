#include "schemas/verify/numbers/held.h"

#include <iterator>
#include <utility>

namespace piper::verify {

void HeldValues::put(int64_t begin, HeldValue value) {
  auto it = values_.upper_bound(begin);
  if (it != values_.begin()) {
    const auto before = std::prev(it);
    if (before->second.end > begin) {
      if (value.end <= begin) return;  // a value without bytes takes nothing from one that has some
      it = before;
    }
  }
  // Whoever reads what is left of an overwritten value reads no whole value: the bytes' own rule refuses it.
  while (it != values_.end() && it->first < value.end) it = values_.erase(it);
  values_.insert_or_assign(begin, value);  // one without bytes may have begun there
}

const HeldValue* HeldValues::find(int64_t begin, int64_t end, int64_t& at) const {
  auto it = values_.upper_bound(begin);
  if (it == values_.begin()) return nullptr;
  --it;
  at = it->first;
  return end <= it->second.end ? &it->second : nullptr;
}

}  // namespace piper::verify
