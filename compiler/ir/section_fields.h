// How the words of a line of a module's text are listed once, for its printer and its reader: a function
//
//   void fields(auto& v, Of<ClipGradients> auto& clip) {
//     v("", clip.norms);
//     v("to", clip.norm);
//   }
//
// calls the visitor `v` for each member in the order of the text, with the word before it ("": none). A line's visitors
// are LineWriter and LineReader; those of a block, each member of which is a line in any place, are BlockWriter
// and BlockReader. Where a word alone cannot say what it wants, the last argument does: "a microbatch". Used by
// print_module.cc, parse_module.cc and the files of the sections.
#pragma once

#include <concepts>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "compiler/ir/module_sections.h"
#include "schemas/base/of.h"

namespace piper::ir {

// A list whose equal neighbours are written once: "[0 x4, 1]"; "none" in it is an invalid id.
template <class List>
struct Repeated {
  List& list;
  friend bool operator==(const Repeated& a, const Repeated& b) { return a.list == b.list; }
};
template <class List>
Repeated(List&) -> Repeated<List>;
// An id that may be none.
template <class IdType>
struct OrNone {
  IdType& id;
};
template <class IdType>
OrNone(IdType&) -> OrNone<IdType>;

// Words of an enumeration, by its enumerators' numbers.
inline Words words_of(RepeatedOps) {
  static constexpr std::string_view kWords[] = {"all", "all_but_products", "attention"};
  return kWords;
}
inline Words words_of(Residency) {
  static constexpr std::string_view kWords[] = {"use", "microbatch", "step"};
  return kWords;
}
inline Words words_of(plan::Priority) {
  static constexpr std::string_view kWords[] = {"normal", "high", "low"};
  return kWords;
}
inline Words words_of(LossScale) {
  static constexpr std::string_view kWords[] = {"none", "fixed", "dynamic"};
  return kWords;
}

constexpr const char* what_of(ChunkId) { return "a chunk"; }
constexpr const char* what_of(NodeId) { return "a node"; }
constexpr const char* what_of(GroupId) { return "a group"; }
constexpr const char* what_of(TeamsId) { return "teams"; }
constexpr const char* what_of(BucketId) { return "a bucket"; }
constexpr const char* what_of(AccumulatorId) { return "an accumulator"; }
constexpr const char* what_of(ScalarId) { return "a scalar"; }
constexpr const char* what_of(ProvId) { return "an entry of the provenance"; }

inline std::string entry_text(const std::string& text) { return string_literal(text); }
inline std::string entry_text(double number) { return number_text(number); }
inline std::string entry_text(diag::Span span) { return span_text(span); }
inline std::string entry_text(std::integral auto number) { return std::to_string(number); }
template <class Tag>
std::string entry_text(Id<Tag> id) {
  return id_text(id);
}
inline std::string_view entry_text(DType dtype) { return dtype_name(dtype); }
inline std::string_view entry_text(Phase phase) { return phase_text(phase); }
template <class Enum>
  requires requires(Enum value) { words_of(value); }
std::string_view entry_text(Enum value) {
  return words_of(value)[static_cast<size_t>(value)];
}
inline std::string entry_text(const std::vector<int64_t>& numbers) { return list_text(numbers); }
inline std::string entry_text(const std::vector<std::vector<int32_t>>& lists) { return rank_lists_text(lists); }
template <class T>
  requires requires(std::vector<T> list) { ranges_text(list); }
std::string entry_text(const std::vector<T>& indices) {
  return ranges_text(indices);
}
template <class List>
std::string entry_text(const Repeated<List>& repeated) {
  return repeated_text(repeated.list, [](const auto& entry) { return entry_text(entry); });
}
template <class IdType>
std::string entry_text(OrNone<IdType> id) {
  return id_text(id.id);
}
// A part with a text of its own: text() and read(ModuleReader&).
template <class T>
  requires requires(const T& part) { part.text(); }
std::string entry_text(const T& part) {
  return part.text();
}

class LineWriter {
 public:
  static constexpr bool kReads = false;

  LineWriter(const Module& module, std::ostream& out) : module_(module), out_(out) {}

  template <class T>
  void operator()(std::string_view key, const T& member, const char* = "") {
    word(key);
    write(member);
  }
  template <class T>
  void operator()(std::string_view key, const std::optional<T>& member, const char* = "") {
    if (member) (*this)(key, *member);
  }
  template <class T>
  void optional(std::string_view key, const T& member, const std::type_identity_t<T>& left_out, const char* = "") {
    if (!(member == left_out)) (*this)(key, member);
  }
  void flag(std::string_view key, bool stands) {
    if (stands) word(key);
  }
  template <class List>
  void unless_empty(std::string_view key, const List& list, const char* = "") {
    if (!list.empty()) (*this)(key, list);
  }
  template <class Members>
  void together(std::string_view key, bool said, Members members) {
    if (!said) return;
    word(key);
    members();
  }
  void integer_in(std::string_view key, int32_t number, int64_t, int64_t, const char*) { (*this)(key, number); }
  // The word of the kind that it holds, then its members.
  template <class... Kinds>
  void kind(Words words, const std::variant<Kinds...>& any) {
    word(words[any.index()]);
    std::visit([this](const auto& one) { fields(*this, one); }, any);
  }
  void word(std::string_view key) {
    if (!key.empty()) gap() << key;
  }

 private:
  std::ostream& gap() { return out_ << std::exchange(gap_, " "); }
  void write(ValueId value) { gap() << (value.valid() ? value_text(module_.graph().value(value).name) : "none"); }
  template <class T>
  void write(const T& member) {
    if constexpr (requires { entry_text(member); }) gap() << entry_text(member);
    else fields(*this, member);
  }
  // For structs and words: "[F 0 1, B 0 1]".
  template <class T>
    requires(!requires(std::vector<T> list) { entry_text(list); })
  void write(const std::vector<T>& list) {
    gap() << "[";
    for (size_t i = 0; i < list.size(); ++i) {
      gap_ = i > 0 ? ", " : "";
      write(list[i]);
    }
    out_ << "]";
    gap_ = " ";
  }

  const Module& module_;
  std::ostream& out_;
  const char* gap_ = " ";
};

// Keeps the first failure; what follows it reads nothing.
class LineReader {
 public:
  static constexpr bool kReads = true;

  LineReader(const Module& module, ModuleReader& in) : module_(module), in_(in) {}
  Status take_status() { return std::move(status_); }

  template <class T>
  void operator()(const char* key, T&& member, const char* what = "") {
    word(key);
    if (status_.ok()) keep(read(member, what));
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& member, const char* what = "") {
    if (stands(key)) keep(read(member.emplace(), what));
  }
  template <class T>
  void optional(const char* key, T& member, const std::type_identity_t<T>&, const char* what = "") {
    if (stands(key)) keep(read(member, what));
  }
  template <class T>
  void unless_empty(const char* key, T&& list, const char* what = "") {
    if (stands(key)) keep(read(list, what));
  }
  void flag(const char* key, bool& member) { member = stands(key); }
  template <class Members>
  void together(const char* key, bool, Members members) {
    if (stands(key)) members();
  }
  void integer_in(const char* key, int32_t& number, int64_t least, int64_t most, const char* what) {
    word(key);
    if (status_.ok()) keep(assign(number, in_.integer_in(least, most, what)));
  }
  template <class... Kinds>
  void kind(Words words, std::variant<Kinds...>& any) {
    size_t index = 0;
    if (status_.ok()) keep(assign(index, in_.one_of(words)));
    if (status_.ok()) emplace<0>(index, any);
  }
  void word(const char* key) {
    if (status_.ok() && *key != 0) keep(in_.want_word(key));
  }

 private:
  void keep(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  bool stands(const char* key) {
    bool found = false;
    if (status_.ok()) keep(assign(found, in_.takes(key)));
    return found;
  }
  template <size_t kNext, class Any>
  void emplace(size_t index, Any& any) {
    if constexpr (kNext < std::variant_size_v<Any>) {
      if (index == kNext) fields(*this, any.template emplace<kNext>());
      else emplace<kNext + 1>(index, any);
    }
  }
  template <class T, class Read>
  static Status assign(T& to, Result<Read> read) {
    if (!read.ok()) return read.take_status();
    to = static_cast<T>(std::move(read).value());
    return {};
  }

  Status read(std::string& text, const char*) { return assign(text, in_.string()); }
  Status read(int64_t& number, const char*) { return assign(number, in_.integer()); }
  Status read(int32_t& number, const char* what) { return assign(number, in_.int32(what)); }
  Status read(uint32_t& number, const char* what) { return assign(number, in_.uint32(what)); }
  Status read(double& number, const char*) { return assign(number, in_.number()); }
  Status read(DType& dtype, const char*) { return assign(dtype, in_.dtype()); }
  Status read(Phase& phase, const char*) { return assign(phase, in_.phase()); }
  Status read(diag::Span& span, const char*) { return assign(span, in_.span()); }
  Status read(ValueId& value, const char*) { return assign(value, in_.value(module_)); }
  template <class Tag>
  Status read(Id<Tag>& id, const char*) {
    return assign(id, in_.id<Id<Tag>>(what_of(id)));
  }
  template <class IdType>
  Status read(OrNone<IdType>& id, const char*) {
    return assign(id.id, in_.id_or_none<IdType>(what_of(id.id)));
  }
  template <class Enum>
    requires requires(Enum value) { words_of(value); }
  Status read(Enum& value, const char*) {
    return assign(value, in_.word<Enum>(words_of(value)));
  }
  Status read(std::vector<int64_t>& numbers, const char*) { return assign(numbers, in_.integers()); }
  Status read(std::vector<std::vector<int32_t>>& lists, const char*) { return assign(lists, in_.rank_lists()); }
  template <class T>
    requires requires(std::vector<T> list) { ranges_text(list); }
  Status read(std::vector<T>& indices, const char* what) {
    if constexpr (requires(T id) { what_of(id); }) what = what_of(T());
    return assign(indices, in_.ranges<T>(what));
  }
  template <class T>
  Status read(Repeated<std::vector<T>>& repeated, const char* what) {
    return assign(repeated.list, in_.repeated<T>([&]() -> Result<T> { return entry(T(), what); }));
  }
  Result<bool> entry(bool, const char*) {
    PIPER_ASSIGN(const int64_t flag, in_.integer_in(0, 1, "a flag"));
    return flag == 1;
  }
  // Or -1.
  Result<int32_t> entry(int32_t, const char* what) {
    PIPER_ASSIGN(const int64_t number, in_.integer_in(-1, INT32_MAX, what));
    return static_cast<int32_t>(number);
  }
  Result<diag::Span> entry(diag::Span, const char*) { return in_.span(); }
  template <class Tag>
  Result<Id<Tag>> entry(Id<Tag> id, const char*) {
    return in_.id_or_none<Id<Tag>>(what_of(id));
  }
  template <class T>
  Status read(T& object, const char* what) {
    if constexpr (requires { object.read(in_); }) {
      return object.read(in_);
    } else if constexpr (requires { object.emplace_back(); }) {
      return in_.list([&] { return read(object.emplace_back(), what); });
    } else {
      fields(*this, object);
      return {};
    }
  }

  const Module& module_;
  ModuleReader& in_;
  Status status_;
};

template <class T>
void write_line(const Module& module, std::ostream& out, std::string_view begin, const T& line) {
  out << begin;
  LineWriter writer(module, out);
  writer("", line);
  out << "\n";
}
// Lines are numbered.
template <class T>
void write_table(const Module& module, std::ostream& out, std::string_view begin, const std::vector<T>& table) {
  for (size_t i = 0; i < table.size(); ++i)
    write_line(module, out, std::string(begin) + " " + std::to_string(i), table[i]);
}
template <class T>
Status read_line(const Module& module, ModuleReader& in, T& line) {
  LineReader reader(module, in);
  reader("", line);
  return reader.take_status();
}
// The next line of a table.
template <class T>
Status read_next(const Module& module, ModuleReader& in, std::vector<T>& table, const char* name) {
  PIPER_RETURN_IF_ERROR(in.numbered(table.size(), name));
  return read_line(module, in, table.emplace_back());
}

// A block, of which each member that is not left out has a line, and each entry of a table.
class BlockWriter {
 public:
  static constexpr bool kReads = false;

  BlockWriter(const Module& module, std::ostream& out, std::string indent)
      : module_(module), out_(out), indent_(std::move(indent)) {}

  const Module& module() const { return module_; }
  template <class Block>
  void block(std::string_view begin, const Block& block) {
    out_ << indent_ << begin << " {\n";
    BlockWriter inside(module_, out_, indent_ + "  ");
    fields(inside, block);
    out_ << indent_ << "}\n";
  }

  template <class T>
  void operator()(std::string_view key, const T& member, const char* = "") {
    write_line(module_, out_, indent_ + std::string(key), member);
  }
  template <class T>
  void optional(std::string_view key, const T& member, const std::type_identity_t<T>& left_out, const char* = "") {
    if (!(member == left_out)) (*this)(key, member);
  }
  template <class List>
  void unless_empty(std::string_view key, const List& list, const char* = "") {
    if (!list.empty()) (*this)(key, list);
  }
  void flag(std::string_view key, bool stands) {
    if (stands) out_ << indent_ << key << "\n";
  }
  template <class T>
  void where(bool says, std::string_view key, const T& member) {
    if (says) (*this)(key, member);
  }
  template <class T>
  void table(std::string_view key, const std::vector<T>& table, const char*) {
    write_table(module_, out_, indent_ + std::string(key), table);
  }
  template <class T>
  void blocks(std::string_view key, const std::vector<T>& table, const char*, const auto&, size_t) {
    for (size_t i = 0; i < table.size(); ++i) block(std::string(key) + " " + std::to_string(i), table[i]);
  }

 private:
  const Module& module_;
  std::ostream& out_;
  const std::string indent_;
};

// Reads one line of it.
class BlockReader {
 public:
  static constexpr bool kReads = true;

  BlockReader(const Module& module, ModuleReader& in) : module_(module), in_(in), name_(in.token()) {}
  // All of its lines.
  template <class Block>
  static Status block(const Module& module, ModuleReader& in, Block& block) {
    return in.block([&]() -> Status {
      BlockReader line(module, in);
      fields(line, block);
      return line.take_status();
    });
  }
  Status take_status() { return read_ ? std::move(status_) : in_.fail(name_, expected_ + " or '}'"); }

  const Module& module() const { return module_; }
  template <class T>
  void operator()(const char* key, T&& member, const char* what = "") {
    if (!is(key)) return;
    LineReader reader(module_, in_);
    reader(key, member, what);
    status_ = reader.take_status();
  }
  void optional(const char* key, auto&& member, const auto&, const char* what = "") { (*this)(key, member, what); }
  void unless_empty(const char* key, auto&& list, const char* what = "") { (*this)(key, list, what); }
  void where(bool, const char* key, auto& member) { (*this)(key, member); }
  void flag(const char* key, bool& member) {
    if (!is(key)) return;
    member = true;
    status_ = in_.advance();
  }
  template <class T>
  void table(const char* key, std::vector<T>& table, const char* name) {
    if (!is(key)) return;
    status_ = in_.advance();
    if (status_.ok()) status_ = read_next(module_, in_, table, name);
  }
  // Blocks that begin as `fresh` makes them, which stands for so many entries that no text has.
  template <class T>
  void blocks(const char* key, std::vector<T>& table, const char* name, const auto& fresh, size_t entries) {
    if (is(key)) status_ = next_block(table, name, fresh, entries);
  }

 private:
  bool is(const char* key) {
    if (read_) return false;
    if (name_.is_word(key)) return read_ = true;
    expected_ += (expected_.empty() ? "expected " : ", ") + std::string(key);
    return false;
  }
  template <class T>
  Status next_block(std::vector<T>& table, const char* name, const auto& fresh, size_t entries) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    PIPER_RETURN_IF_ERROR(in_.numbered(table.size(), name));
    PIPER_RETURN_IF_ERROR(in_.expand(in_.token(), entries));
    return block(module_, in_, table.emplace_back(fresh()));
  }

  const Module& module_;
  ModuleReader& in_;
  const Token name_;
  bool read_ = false;
  std::string expected_;
  Status status_;
};

}  // namespace piper::ir
