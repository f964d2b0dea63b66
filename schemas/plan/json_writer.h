// Builds canonical JSON text: what every text file of a bundle is written with. No spaces, keys in the order of the
// calls, shortest decimal numbers that read back exactly. It does not check nesting; the printers of this folder do
// that by construction. Owns its text, which grows as it is written: a bundle is megabytes of short pieces.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace piper::plan {

class JsonWriter {
 public:
  std::string_view text() const { return {begin_.get(), size()}; }
  std::string str() const { return std::string(text()); }
  size_t size() const { return static_cast<size_t>(at_ - begin_.get()); }
  // Begins anew in the same memory.
  void clear() { at_ = begin_.get(); }
  // Room for so many bytes more.
  void reserve(size_t bytes) {
    if (static_cast<size_t>(end_ - at_) >= bytes) [[likely]]
      return;
    const size_t used = size(),
                 capacity = std::max<size_t>({2 * static_cast<size_t>(end_ - begin_.get()), used + bytes, 256});
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (used > 0) std::memcpy(larger.get(), begin_.get(), used);
    begin_ = std::move(larger);
    at_ = begin_.get() + used;
    end_ = begin_.get() + capacity;
  }

  void raw(std::string_view text) {
    reserve(text.size());
    put(text);
  }
  void string(std::string_view text) {
    reserve(6 * text.size() + 2);
    *at_++ = '"';
    body(text);
    *at_++ = '"';
  }
  // The inside of a string, for strings put together from parts.
  void string_body(std::string_view text) {
    reserve(6 * text.size());
    body(text);
  }
  template <class Integer>
  void number(Integer value) {
    reserve(24);
    at_ = std::to_chars(at_, end_, value).ptr;
  }
  // Always with a point or exponent, so that reading gives a double again. Infinity is 1e999 (what
  // JSON readers take for it), not-a-number is null.
  void real(double value) {
    if (std::isnan(value)) return raw("null");
    if (std::isinf(value)) return raw(value > 0 ? "1e999" : "-1e999");
    reserve(40);
    const std::string_view text(at_, static_cast<size_t>(std::to_chars(at_, end_, value).ptr - at_));
    at_ += text.size();
    if (text.find_first_of(".e") == std::string_view::npos) raw(".0");
  }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  template <class Integer>
  void numbers(const std::vector<Integer>& values) {
    raw("[");
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) raw(",");
      number(values[i]);
    }
    raw("]");
  }
  void strings(const std::vector<std::string>& values) {
    raw("[");
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) raw(",");
      string(values[i]);
    }
    raw("]");
  }
  // "key": with a comma before it unless it opens an object.
  void key(std::string_view name) {
    reserve(6 * name.size() + 4);
    if (at_ != begin_.get() && at_[-1] != '{' && at_[-1] != '\n') *at_++ = ',';
    *at_++ = '"';
    body(name);
    *at_++ = '"';
    *at_++ = ':';
  }
  // A member with its value: a number, a real, a boolean, a string, or a list of numbers or strings.
  template <class T>
  void member(std::string_view name, const T& value) {
    key(name);
    if constexpr (std::same_as<T, bool>) boolean(value);
    else if constexpr (std::floating_point<T>) real(value);
    else if constexpr (std::integral<T>) number(value);
    else if constexpr (std::convertible_to<const T&, std::string_view>) string(value);
    else if constexpr (std::same_as<T, std::vector<std::string>>) strings(value);
    else numbers(value);
  }
  // "key":[ or {, one item a line: begin, item before each, end.
  void begin_lines(std::string_view name, char bracket) {
    key(name);
    raw({&bracket, 1});
    first_line_ = true;
  }
  void line() {
    raw(first_line_ ? "\n" : ",\n");
    first_line_ = false;
  }
  void end_lines(char bracket) {
    if (!first_line_) raw("\n");
    first_line_ = false;
    raw({&bracket, 1});
  }
  // Members of the file's outermost object: each on a line of its own.
  void begin_file() { raw("{\n"); }
  void next_member() { raw(",\n"); }
  void end_file() { raw("\n}\n"); }

 private:
  // These two write where reserve() made room.
  void put(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void body(std::string_view text) {
    for (const char byte : text) {
      const auto c = static_cast<unsigned char>(byte);
      if (c >= 0x20 && c != '"' && c != '\\') [[likely]]
        *at_++ = byte;
      else escape(c);
    }
  }
  void escape(unsigned char c) {
    if (c == '"' || c == '\\') {
      *at_++ = '\\';
      *at_++ = static_cast<char>(c);
      return;
    }
    constexpr char kHex[] = "0123456789abcdef";
    put("\\u00");
    *at_++ = kHex[c >> 4];
    *at_++ = kHex[c & 15];
  }

  std::unique_ptr<char[]> begin_;
  char* at_ = nullptr;
  char* end_ = nullptr;
  bool first_line_ = true;
};

}  // namespace piper::plan
