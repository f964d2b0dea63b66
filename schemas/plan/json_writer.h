// Appends canonical JSON text to a string: what every text file of a bundle is written with. No
// spaces, keys in the order of the calls, shortest decimal numbers that read back exactly. It does
// not check nesting; the printers of this folder do that by construction.
#pragma once

#include <cmath>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace piper::plan {

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void raw(std::string_view text) { out_.append(text); }
  void string(std::string_view text) {
    out_.push_back('"');
    string_body(text);
    out_.push_back('"');
  }
  // The inside of a string, for strings put together from parts.
  void string_body(std::string_view text) {
    size_t clean = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (i + 8 <= text.size() && eight_clean(text.data() + i)) {
        i += 7;
        continue;
      }
      const auto c = static_cast<unsigned char>(text[i]);
      if (c >= 0x20 && c != '"' && c != '\\') [[likely]] continue;
      out_.append(text.substr(clean, i - clean));
      escape(c);
      clean = i + 1;
    }
    out_.append(text.substr(clean));
  }
  template <class Integer>
  void number(Integer value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.append(digits, end);
  }
  // Always with a point or exponent, so that reading gives a double again. Infinity is 1e999 (what
  // JSON readers take for it), not-a-number is null.
  void real(double value) {
    if (std::isnan(value)) return raw("null");
    if (std::isinf(value)) return raw(value > 0 ? "1e999" : "-1e999");
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    const std::string_view text(digits, static_cast<size_t>(end - digits));
    out_.append(text);
    if (text.find_first_of(".e") == std::string_view::npos) out_.append(".0");
  }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  template <class Integer>
  void numbers(const std::vector<Integer>& values) {
    out_.push_back('[');
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_.push_back(',');
      number(values[i]);
    }
    out_.push_back(']');
  }
  void strings(const std::vector<std::string>& values) {
    out_.push_back('[');
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_.push_back(',');
      string(values[i]);
    }
    out_.push_back(']');
  }
  // "key": with a comma before it unless it opens an object.
  void key(std::string_view name) {
    if (out_.back() != '{' && out_.back() != '\n') out_.push_back(',');
    out_.push_back('"');
    out_.append(name);
    out_.append("\":");
  }
  // "key":[ or {, one item a line: begin, item before each, end.
  void begin_lines(std::string_view name, char bracket) {
    key(name);
    out_.push_back(bracket);
    first_line_ = true;
  }
  void line() {
    out_.append(first_line_ ? "\n" : ",\n");
    first_line_ = false;
  }
  void end_lines(char bracket) {
    if (!first_line_) out_.push_back('\n');
    first_line_ = false;
    out_.push_back(bracket);
  }
  // Members of the file's outermost object: each on a line of its own.
  void begin_file() { out_.append("{\n"); }
  void next_member() { out_.append(",\n"); }
  void end_file() { out_.append("\n}\n"); }

 private:
  // Whether none of eight bytes is a control character, a quote or a backslash. A byte that is 0 after `exclusive or` borrows
  // from its top bit (https://graphics.stanford.edu/~seander/bithacks.html#ZeroInWord); a hit next to a real one may be a false one.
  static bool eight_clean(const char* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    constexpr uint64_t kOnes = 0x0101010101010101u, kTops = 0x8080808080808080u;
    const auto zero = [](uint64_t w) { return (w - kOnes) & ~w & kTops; };
    const uint64_t control = (word - kOnes * 0x20) & ~word & kTops;
    return (control | zero(word ^ (kOnes * '"')) | zero(word ^ (kOnes * '\\'))) == 0;
  }
  void escape(unsigned char c) {
    if (c == '"' || c == '\\') {
      out_.push_back('\\');
      out_.push_back(static_cast<char>(c));
      return;
    }
    constexpr char kHex[] = "0123456789abcdef";
    out_.append("\\u00");
    out_.push_back(kHex[c >> 4]);
    out_.push_back(kHex[c & 15]);
  }

  std::string& out_;
  bool first_line_ = true;
};

}  // namespace piper::plan
