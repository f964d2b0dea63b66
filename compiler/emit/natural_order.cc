#include "compiler/emit/natural_order.h"

#include <algorithm>
#include <cstddef>
#include <memory>

namespace piper::emit {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Writes a key that compares byte by byte as names do: "m2" before "m10", so a run of digits is led by its length. At
// most twice as long as the name; returns its end.
char* write_key(std::string_view name, char* at) {
  char* led_at = nullptr;  // where the length of the open run of digits is written
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

  uint64_t head[2] = {};  // bytes 0 to 15, zeros after a shorter key
  std::string_view rest;
  int32_t index = -1;
};

}  // namespace

std::vector<int32_t> natural_order(const std::vector<std::string_view>& names) {
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

}  // namespace piper::emit
