#include "schemas/plan/json_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "schemas/plan/reader_codes.h"

namespace piper::plan {
namespace {

// What is at the cursor, short enough for a message.
std::string describe(const char* at, const char* end) {
  if (at == end) return "the end of the file";
  const size_t length = std::min<size_t>(24, static_cast<size_t>(end - at));
  std::string shown;
  for (size_t i = 0; i < length && at[i] != '\n'; ++i) {
    const auto c = static_cast<unsigned char>(at[i]);
    shown.push_back(c >= 0x20 && c < 0x7f ? at[i] : '?');
  }
  return "'" + shown + "'";
}

bool in_number(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '.' || c == 'e' || c == '+' || c == 'E'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool read_hex4(const char*& at, const char* end, uint32_t& code) {
  if (end - at < 4) return false;
  code = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_digit(*at++);
    if (digit < 0) return false;
    code = code * 16 + static_cast<uint32_t>(digit);
  }
  return true;
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | (c >> 6));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

}  // namespace

bool JsonReader::fail(std::string_view code, size_t position, std::string message) {
  if (ok()) {
    code_ = code;
    message_ = std::move(message);
    failed_at_ = position;
  }
  cursor_ = end_;
  return false;
}

Status JsonReader::status() const {
  if (ok()) return {};
  return failure_at(code_, failed_at_, message_);
}

Status JsonReader::failure_at(std::string_view code, size_t position, const std::string& message) const {
  const auto line = 1 + std::count(begin_, begin_ + std::min(position, static_cast<size_t>(end_ - begin_)), '\n');
  return Status::failure(std::string(code), file_ + ":" + std::to_string(line) + ": " + message);
}

bool JsonReader::expected(std::string_view what) {
  return fail(kSyntax, position(), "expected " + std::string(what) + ", found " + describe(cursor_, end_));
}

bool JsonReader::expect(char c) {
  skip_space();
  if (cursor_ < end_ && *cursor_ == c) [[likely]] {
    ++cursor_;
    return true;
  }
  return expected(std::string("'") + c + "'");
}

void JsonReader::open(char bracket) {
  expect(bracket);
  first_ = true;
}

void JsonReader::close(char bracket) {
  skip_space();
  if (cursor_ < end_ && *cursor_ == ',') {
    ++cursor_;
    skip_space();
    fail(kSyntax, position(), "unknown or misplaced key " + describe(cursor_, end_));
    return;
  }
  expect(bracket);
  first_ = false;
}

void JsonReader::key(std::string_view name) {
  if (!first_ && !expect(',')) return;
  first_ = false;
  skip_space();
  const size_t at = position();
  const auto found = string();
  if (!ok()) return;
  if (found != name) {
    fail(kSyntax, at,
         "expected the key \"" + std::string(name) + "\", found \"" + std::string(found.substr(0, 60)) + "\"");
    return;
  }
  expect(':');
}

bool JsonReader::optional_key(std::string_view name) {
  const char* const saved = cursor_;
  skip_space();
  if (!first_) {
    if (cursor_ == end_ || *cursor_ != ',') {
      cursor_ = saved;
      return false;
    }
    ++cursor_;
    skip_space();
  }
  if (static_cast<size_t>(end_ - cursor_) < name.size() + 2 || *cursor_ != '"' ||
      std::memcmp(cursor_ + 1, name.data(), name.size()) != 0 || cursor_[name.size() + 1] != '"') {
    cursor_ = saved;
    return false;
  }
  cursor_ += name.size() + 2;
  first_ = false;
  return expect(':');
}

bool JsonReader::next_key(std::string_view& name) {
  if (!ok()) return false;
  skip_space();
  if (first_ && cursor_ < end_ && *cursor_ == '}') {
    ++cursor_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (cursor_ < end_ && *cursor_ == '}') {
      ++cursor_;
      return false;
    }
    if (!expect(',')) return false;
  }
  first_ = false;
  name = string();
  return expect(':');
}

std::string_view JsonReader::first_key() {
  if (!first_ && !expect(',')) return {};
  first_ = false;
  const auto name = string();
  expect(':');
  return name;
}

bool JsonReader::next_item() {
  if (!ok()) return false;
  skip_space();
  if (cursor_ < end_ && *cursor_ == ']') {
    ++cursor_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (!expect(',')) return false;
    skip_space();
  }
  if (cursor_ == end_) return expected("a value");
  first_ = false;
  return true;
}

bool JsonReader::accept_null() {
  skip_space();
  if (end_ - cursor_ < 4 || std::memcmp(cursor_, "null", 4) != 0) return false;
  cursor_ += 4;
  return true;
}

std::string_view JsonReader::string() {
  skip_space();
  if (cursor_ == end_ || *cursor_ != '"') {
    expected("a string");
    return {};
  }
  const char* const start = ++cursor_;
  while (cursor_ < end_) {
    const auto c = static_cast<unsigned char>(*cursor_);
    if (c == '"') {
      const std::string_view text(start, static_cast<size_t>(cursor_ - start));
      ++cursor_;
      return text;
    }
    if (c == '\\') return unescape(start);
    if (c < 0x20) break;
    ++cursor_;
  }
  expected("the end of a string");
  return {};
}

std::string_view JsonReader::unescape(const char* start) {
  std::string text(start, static_cast<size_t>(cursor_ - start));
  while (cursor_ < end_ && *cursor_ != '"' && static_cast<unsigned char>(*cursor_) >= 0x20) {
    if (*cursor_ != '\\') {
      text.push_back(*cursor_++);
      continue;
    }
    if (++cursor_ == end_) break;
    const char kind = *cursor_++;
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t i = kFrom.find(kind); i != std::string_view::npos) {
      text.push_back(kTo[i]);
      continue;
    }
    uint32_t code = 0, low = 0;
    bool good = kind == 'u' && read_hex4(cursor_, end_, code);
    if (good && code >= 0xd800 && code < 0xdc00) {
      good = end_ - cursor_ >= 6 && cursor_[0] == '\\' && cursor_[1] == 'u';
      if (good) {
        cursor_ += 2;
        good = read_hex4(cursor_, end_, low) && low >= 0xdc00 && low < 0xe000;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      }
    }
    if (!good) {
      fail(kSyntax, position(), "bad escape in a string");
      return {};
    }
    append_utf8(text, code);
  }
  if (cursor_ == end_ || *cursor_ != '"') {
    expected("the end of a string");
    return {};
  }
  ++cursor_;
  return unescaped_.emplace_back(std::move(text));
}

std::string_view JsonReader::number_text() {
  skip_space();
  const char* const start = cursor_;
  while (cursor_ < end_ && in_number(*cursor_)) ++cursor_;
  return {start, static_cast<size_t>(cursor_ - start)};
}

namespace {
template <class T>
bool whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}
}  // namespace

int64_t JsonReader::integer() {
  skip_space();
  const size_t at = position();
  const auto text = number_text();
  int64_t value = 0;
  if (!ok() || whole(text, value)) return value;
  cursor_ = begin_ + at;
  expected("an integer");
  return 0;
}

uint64_t JsonReader::unsigned_integer() {
  skip_space();
  const size_t at = position();
  const auto text = number_text();
  uint64_t value = 0;
  if (!ok() || whole(text, value)) return value;
  cursor_ = begin_ + at;
  expected("an integer from 0 up");
  return 0;
}

int32_t JsonReader::small_integer() {
  skip_space();
  const size_t at = position();
  const int64_t value = integer();
  if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max())
    return static_cast<int32_t>(value);
  fail(kSyntax, at, "the number " + std::to_string(value) + " is out of range");
  return 0;
}

double JsonReader::real() {
  if (accept_null()) return std::numeric_limits<double>::quiet_NaN();
  skip_space();
  const size_t at = position();
  const auto text = number_text();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!ok()) return 0;
  if (end == text.data() + text.size() && !text.empty()) {
    if (error == std::errc()) return value;
    if (error == std::errc::result_out_of_range && text.find("e-") == std::string_view::npos &&
        text.find("E-") == std::string_view::npos) {
      const double infinity = std::numeric_limits<double>::infinity();
      return text.front() == '-' ? -infinity : infinity;
    }
  }
  cursor_ = begin_ + at;
  expected("a number");
  return 0;
}

bool JsonReader::boolean() {
  skip_space();
  if (end_ - cursor_ >= 4 && std::memcmp(cursor_, "true", 4) == 0) {
    cursor_ += 4;
    return true;
  }
  if (end_ - cursor_ >= 5 && std::memcmp(cursor_, "false", 5) == 0) {
    cursor_ += 5;
    return false;
  }
  return expected("true or false");
}

std::vector<int64_t> JsonReader::integers() {
  std::vector<int64_t> values;
  open_array();
  while (next_item()) values.push_back(integer());
  return values;
}

std::vector<std::string> JsonReader::strings() {
  std::vector<std::string> values;
  open_array();
  while (next_item()) values.emplace_back(string());
  return values;
}

char JsonReader::peek() {
  skip_space();
  return cursor_ < end_ ? *cursor_ : '\0';
}

bool JsonReader::number_is_real() {
  skip_space();
  const char* const saved = cursor_;
  const auto text = number_text();
  cursor_ = saved;
  return text.find_first_of(".eE") != std::string_view::npos;
}

void JsonReader::end_of_text() {
  skip_space();
  if (cursor_ != end_) expected("the end of the file");
}

}  // namespace piper::plan
