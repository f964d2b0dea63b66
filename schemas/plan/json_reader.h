// A cursor over JSON text for the fixed grammars of the bundle's files: the caller says which key
// and kind of value comes next. The first failure is kept with its line; afterwards every call
// returns an empty value and every loop ends, so that callers check once. Never recurses, never
// throws on any bytes. Keys are in the order of the format; white space is free.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"

namespace piper::plan {

class JsonReader {
 public:
  // `text` must outlive the reader and the views it returns.
  JsonReader(std::string_view text, std::string file)
      : begin_(text.data()), cursor_(text.data()), end_(text.data() + text.size()), file_(std::move(file)) {}

  bool ok() const { return code_.empty(); }
  // The first failure as "file:line: message".
  Status status() const;
  // Keeps the first failure; `position` as from position(). Returns false, for the caller to pass on.
  bool fail(std::string_view code, size_t position, std::string message);
  size_t position() const { return static_cast<size_t>(cursor_ - begin_); }
  const std::string& file() const { return file_; }
  // A failure found later at a kept position.
  Status failure_at(std::string_view code, size_t position, const std::string& message) const;

  void open_object() { open('{'); }
  void close_object() { close('}'); }
  void key(std::string_view name);           // exactly this key comes next
  bool optional_key(std::string_view name);  // true and consumed when it is this one
  bool next_key(std::string_view& name);     // false at the object's end, which is consumed
  std::string_view first_key();              // the key that says what kind of object this is

  void open_array() { open('['); }
  bool next_item();  // false at the array's end, which is consumed
  bool accept_null();

  std::string_view string();
  int64_t integer();
  uint64_t unsigned_integer();
  int32_t small_integer();  // fits int32
  double real();            // null: not a number
  bool boolean();
  std::vector<int64_t> integers();
  std::vector<std::string> strings();
  char peek();            // first character of the next value
  bool number_is_real();  // the next value is a number with a point or exponent

  void end_of_text();

 private:
  void skip_space() {
    while (cursor_ < end_ && (*cursor_ == ' ' || *cursor_ == '\n' || *cursor_ == '\t' || *cursor_ == '\r')) ++cursor_;
  }
  void open(char bracket);
  void close(char bracket);
  bool expect(char c);
  bool expected(std::string_view what);
  std::string_view number_text();
  std::string_view unescape(const char* start);

  const char* begin_;
  const char* cursor_;
  const char* end_;
  bool first_ = true;  // no comma before the next member or item
  std::string file_, code_, message_;
  size_t failed_at_ = 0;
  std::deque<std::string> unescaped_;  // owns the strings that had escapes
};

}  // namespace piper::plan
