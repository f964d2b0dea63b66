#include "schemas/verify/numbers/held.h"

#include <iterator>
#include <utility>

namespace piper::verify {

int64_t HeldValue::elements_of(int64_t all) const {
  for (const Spread& of : {spread, places})
    if (of.part > 0) all = all / of.of_all() * of.part;
  return all;
}

void hold(HeldValue& value, Spread experts, Spread places) {
  const bool divided = experts.is_spread() || experts.order.kind != RowOrder::Kind::kNone;
  if (places.part == 0 && !places.share && divided) places = {};  // the same at every place
  value.spread = std::move(places);
  value.places = {};
  if (!divided) return;
  value.places = std::exchange(value.spread, std::move(experts));
}

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
