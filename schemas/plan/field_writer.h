// The writer of a bundle's JSON texts by lists of fields (fields.h). A writer of a file derives from it and has write()
// for what is its own. Members of the file's object are on lines of their own, and so are the items of its lists.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/fields.h"
#include "schemas/plan/json_writer.h"

namespace piper::plan {

template <class Self>
class FieldWriter {
 public:
  static constexpr bool kReads = false;

  template <class File>
  void file(const File& file) {
    json_.begin_file();
    fields(self(), file);
    json_.end_file();
  }

  template <class T>
  void operator()(std::string_view key, const T& member, const Rule& = {}) {
    begin(key);
    self().write(member);
  }
  template <class T>
  void operator()(std::string_view key, const std::optional<T>& member, const Rule& = {}) {
    if (member) (*this)(key, *member);
  }
  template <class T>
  void optional(std::string_view key, const T& member, const std::type_identity_t<T>& left_out, const Rule& = {}) {
    if (!(member == left_out)) (*this)(key, member);
  }
  template <class Items>
  void unless_empty(std::string_view key, const Items& items) {
    if (!items.empty()) (*this)(key, items);
  }
  template <class Members>
  void where(bool holds, Members members) {
    if (holds) members();
  }
  template <class Members>
  void together(bool said, Members members) {
    if (said) members();
  }

  void write(std::string_view text) { json_.string(text); }
  void write(const std::string& text) { json_.string(text); }
  void write(std::integral auto number) { json_.number(number); }
  void write(bool value) { json_.boolean(value); }
  void write(double value) { json_.real(value); }
  void write(IsWord auto word) { json_.string(word_of(word)); }
  void write(const IsStruct auto& object) {
    const bool file = std::exchange(of_file_, false);
    json_.raw("{");
    fields(self(), object);
    json_.raw("}");
    of_file_ = file;
  }
  template <IsList Items>
  void write(const Items& items) {
    list(items, [&](const auto& item) { self().write(item); });
  }

 protected:
  Self& self() { return static_cast<Self&>(*this); }

  void begin(std::string_view key) {
    if (of_file_ && !std::exchange(first_, false)) json_.next_member();
    json_.key(key);
  }
  template <class Items, class Write>
  void list(const Items& items, Write write, char open = '[', char close = ']') {
    const bool lines = std::exchange(of_file_, false);
    json_.raw({&open, 1});
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) json_.raw(",");
      if (lines) json_.raw("\n");
      write(item);
    }
    if (lines && !first) json_.raw("\n");
    json_.raw({&close, 1});
    of_file_ = lines;
  }

  JsonWriter& json_;

 private:
  friend Self;
  explicit FieldWriter(JsonWriter& json) : json_(json) {}

  bool of_file_ = true;  // what is written next is a member of the file's object
  bool first_ = true;
};

}  // namespace piper::plan
