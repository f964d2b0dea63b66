// The reader of a bundle's JSON texts by lists of fields (fields.h). A reader of a file derives from it. Its own are
// read(key, member, rule) of what is not known here, and check(struct or list, position), which is called when one was
// read without a failure; here no check fails. A failure stops the reader, and what follows reads nothing more.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "schemas/plan/fields.h"
#include "schemas/plan/json_reader.h"
#include "schemas/plan/reader_codes.h"

namespace piper::plan {

template <class Self>
class FieldReader {
 public:
  static constexpr bool kReads = true;

  template <class T>
  void operator()(std::string_view key, T& member, const Rule& rule = {}) {
    if (begin(key)) self().read(key, member, rule);
  }
  template <class T>
  void operator()(std::string_view key, std::optional<T>& member, const Rule& rule = {}) {
    if (reader_.optional_key(key)) self().read(key, member.emplace(), rule);
  }
  // A word that is left out is none to be read.
  template <class T>
  void optional(std::string_view key, T& member, const std::type_identity_t<T>& left_out, const Rule& rule = {}) {
    member = left_out;
    if (!reader_.optional_key(key)) return;
    const size_t at = reader_.position();
    self().read(key, member, rule);
    if constexpr (IsWord<T> && !std::same_as<T, DType>) {
      if (member != left_out) return;
      if (rule.says.empty()) unknown(key, word_of(member), rule, at);
      else reader_.fail(kSyntax, at, std::string(rule.says));
    }
  }
  template <class Items>
  void unless_empty(std::string_view key, Items& items) {
    if (reader_.optional_key(key)) self().read(key, items, Rule{});
  }
  template <class Members>
  void where(bool holds, Members members) {
    if (holds) members();
  }
  template <class Members>
  void together(bool, Members members) {
    next_ = Next::kMaybe;
    members();
    next_ = Next::kKey;
  }

  void read(std::string_view key, std::string& text, const Rule& rule) {
    const size_t at = reader_.position();
    text = reader_.string();
    if (!rule.words.empty() && std::find(rule.words.begin(), rule.words.end(), text) == rule.words.end())
      unknown({}, text, rule, at);
    if (rule.filled && text.empty()) reader_.fail(kName, at, std::string(key) + " is empty");
    if (!rule.unique.empty()) self().named(text, rule.unique, at);
  }
  void read(std::string_view key, int64_t& value, const Rule& rule) {
    const size_t at = reader_.position();
    value = reader_.integer();
    if (value < rule.least || value > rule.most) [[unlikely]]
      out_of_range(key, value < 0 && rule.least == 0, rule, at);
  }
  void read(std::string_view key, int32_t& value, const Rule& rule) {
    const size_t at = reader_.position();
    int64_t wide = 0;
    read(key, wide, rule);
    value = static_cast<int32_t>(wide);
    if (value != wide) reader_.fail(kSyntax, at, "the number " + std::to_string(wide) + " is out of range");
  }
  void read(std::string_view, uint64_t& value, const Rule&) { value = reader_.unsigned_integer(); }
  void read(std::string_view key, double& value, const Rule& rule) {
    const size_t at = reader_.position();
    value = reader_.real();
    if (rule.positive && !(value > 0 && std::isfinite(value))) out_of_range(key, false, rule, at);
  }
  void read(std::string_view, bool& value, const Rule&) { value = reader_.boolean(); }
  void read(std::string_view key, IsWord auto& value, const Rule& rule) {
    const size_t at = reader_.position();
    const std::string_view text = reader_.string();
    for (int i = 0;; ++i) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(i);
      const std::string_view word = word_of(value);
      if (word == text && (!word.empty() || rule.or_empty)) return;
      if (word.empty()) break;
    }
    value = {};
    unknown(key, text, rule, at);
  }
  void read(std::string_view, std::vector<int64_t>& values, const Rule& rule) {
    const size_t at = reader_.position();
    values = reader_.integers();
    if (rule.shape && !element_count(values)) reader_.fail(kRange, at, "a shape with a negative or too large extent");
  }
  void read(std::string_view, std::vector<std::string>& values, const Rule&) { values = reader_.strings(); }
  void read(std::string_view, IsStruct auto& object, const Rule&) {
    const size_t at = reader_.position();
    reader_.open_object();
    fields(self(), object);
    reader_.close_object();
    if (reader_.ok()) self().check(object, at);
  }
  template <IsList Items>
  void read(std::string_view key, Items& items, const Rule&) {
    const size_t at = reader_.position();
    if (!names_.empty()) names_.clear();  // which touches all of its buckets
    reader_.open_array();
    while (reader_.next_item()) self().read(key, items.emplace_back(), Rule{});
    if (reader_.ok()) self().check(items, at);
  }

  void check(const auto&, size_t) {}
  // A name of a list of `what`.
  void named(const std::string& name, std::string_view what, size_t at) {
    if (reader_.ok() && !names_.insert(name).second)
      reader_.fail(kName, at, "two " + std::string(what) + " are called " + in_quotes(name));
  }

 protected:
  Self& self() { return static_cast<Self&>(*this); }
  template <class File>
  void file(File& file) {
    self().read({}, file, Rule{});
    reader_.end_of_text();
  }
  // False where the member is left out.
  bool begin(std::string_view key) {
    if (next_ == Next::kKey) [[likely]] {
      reader_.key(key);
      return true;
    }
    if (next_ == Next::kNothing) return false;
    const bool here = next_ == Next::kValue || reader_.optional_key(key);
    next_ = here ? Next::kKey : Next::kNothing;
    return here;
  }
  // The key of the next member was read.
  void key_was_read() { next_ = Next::kValue; }

  JsonReader reader_;

 private:
  friend Self;
  // `text` outlives it.
  FieldReader(std::string_view text, const std::string& file) : reader_(text, file) {}

  void unknown(std::string_view key, std::string_view text, const Rule& rule, size_t at) {
    reader_.fail(
        kSyntax, at,
        "unknown " + std::string(rule.what.empty() ? key : rule.what) + " " + in_quotes(text) + std::string(rule.hint));
  }
  void out_of_range(std::string_view key, bool negative, const Rule& rule, size_t at) {
    const char* const why = negative ? " is negative" : " is out of range";
    reader_.fail(kRange, at, rule.says.empty() ? std::string(key) + why : std::string(rule.says));
  }

  enum class Next : uint8_t { kKey, kValue, kMaybe, kNothing };
  Next next_ = Next::kKey;
  std::unordered_set<std::string> names_;
};

}  // namespace piper::plan
