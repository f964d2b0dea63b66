#include "compiler/emit/natural_order.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_map>

namespace piper::emit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Writes a key that compares byte by byte as names do: "m2" before "m10", so a run of digits is led by its length. At
// most twice as long as the name; returns its end.
char* write_key(std::string_view name, char* at) {
  char* led_at = nullptr;  // where the length of the open run of digits stands
  for (const char c : name) {
    if (!is_digit(c)) {
      led_at = nullptr;
    } else if (led_at == nullptr) {
      led_at = at;
      *at++ = '1';
    } else if (*led_at < '9') {
      ++*led_at;
    }
    *at++ = c;
  }
  return at;
}

// A name's key with its first bytes at hand, which decide most comparisons.
struct Key {
  Key(std::string_view text, int32_t i) : rest(text), index(i) {
    for (size_t k = 0; k < 16; ++k)
      head[k / 8] = head[k / 8] << 8 | (k < text.size() ? static_cast<unsigned char>(text[k]) : 0);
    rest.remove_prefix(std::min<size_t>(16, rest.size()));
  }
  bool operator<(const Key& other) const {
    if (head[0] != other.head[0]) return head[0] < other.head[0];
    if (head[1] != other.head[1]) return head[1] < other.head[1];
    const int order = rest.compare(other.rest);
    return order != 0 ? order < 0 : index < other.index;
  }

  uint64_t head[2] = {};  // bytes 0 to 15, zeros behind a shorter key
  std::string_view rest;
  int32_t index = -1;
};

std::vector<int32_t> order_by_keys(const std::vector<std::string_view>& names) {
  size_t longest = 0;
  for (const std::string_view name : names) longest += 2 * name.size();
  const auto text = std::make_unique_for_overwrite<char[]>(longest);
  std::vector<Key> keys;
  keys.reserve(names.size());
  char* at = text.get();
  for (const std::string_view name : names) {
    char* const end = write_key(name, at);
    keys.emplace_back(std::string_view(at, static_cast<size_t>(end - at)), static_cast<int32_t>(keys.size()));
    at = end;
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int32_t> order;
  order.reserve(names.size());
  for (const Key& key : keys) order.push_back(key.index);
  return order;
}

// A name without the number at its end.
struct Stem {
  std::string_view text;
  std::vector<std::pair<int32_t, int32_t>> names;  // number, -1 where there is none; index
};

// The name's stem and number; a run of digits that its value does not give back is part of the stem.
std::pair<std::string_view, int32_t> split(std::string_view name) {
  constexpr size_t kMost = 9;
  size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  const size_t digits = name.size() - begin;
  if (digits == 0 || digits > kMost || (name[begin] == '0' && digits > 1)) return {name, -1};
  int32_t number = 0;
  for (size_t i = begin; i < name.size(); ++i) number = 10 * number + (name[i] - '0');
  return {name.substr(0, begin), number};
}

}  // namespace

std::vector<int32_t> natural_order(const std::vector<std::string_view>& names) {
  std::vector<Stem> stems;
  std::unordered_map<std::string_view, size_t> known;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto [text, number] = split(names[i]);
    const auto [found, fresh] = known.try_emplace(text, stems.size());
    if (fresh) stems.push_back({text, {}});
    stems[found->second].names.emplace_back(number, static_cast<int32_t>(i));
  }
  // Where there are few names to a stem, the detour does not pay.
  if (2 * stems.size() > names.size()) return order_by_keys(names);

  std::vector<std::string_view> texts;
  for (const Stem& stem : stems) texts.push_back(stem.text);
  const std::vector<int32_t> by_text = order_by_keys(texts);
  std::vector<int32_t> order;
  order.reserve(names.size());
  for (size_t s = 0; s < by_text.size(); ++s) {
    Stem& stem = stems[by_text[s]];
    if (!std::is_sorted(stem.names.begin(), stem.names.end())) std::sort(stem.names.begin(), stem.names.end());
    // A longer stem may belong between this one's names: where its next character comes in front of a digit or is one
    // ("m-x" is before "m2"). Then all names are compared whole.
    if (stem.names.back().first >= 0)
      for (size_t next = s + 1; next < by_text.size() && texts[by_text[next]].starts_with(stem.text); ++next)
        if (static_cast<unsigned char>(texts[by_text[next]][stem.text.size()]) <= '9') return order_by_keys(names);
    for (const auto& [number, index] : stem.names) order.push_back(index);
  }
  return order;
}

}  // namespace piper::emit
