// Reads text forms of the IR word by word: what the parsers of graphs (parser.cc) and of modules (parse_module.cc and
// its sections) share. It knows words and lists, not what they mean. Failures are P0402 "file:line:column: message".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/lexer.h"
#include "compiler/ir/provenance.h"
#include "schemas/plan/dtype.h"
#include "schemas/base/status.h"

namespace piper::ir {

class TextReader {
 public:
  TextReader(std::string_view text, std::string_view file_name) : lexer_(text, file_name) {}

  // The word that is read next; start() reads the first.
  const Token& token() const { return token_; }
  Status start() { return advance(); }
  Status advance();
  Status fail(const Token& at, const std::string& message) const { return lexer_.fail(at, message); }
  Status fail(const std::string& message) const { return lexer_.fail(token_, message); }

  bool is(const char* punct) const { return token_.kind == TokenKind::kPunct && token_.text == punct; }
  bool is_word(std::string_view word) const { return token_.is_word(word); }
  bool at_end() const { return token_.kind == TokenKind::kEnd; }
  Status want(const char* punct);
  Status want_word(const char* word);
  // Whether the word is here; it is passed then.
  Result<bool> takes(const char* word);

  Result<std::string> string();
  Result<int64_t> integer();
  // `what` names it in the message: "a microbatch".
  Result<int64_t> integer_in(int64_t least, int64_t most, const char* what);
  Result<int32_t> int32(const char* what);    // not negative
  Result<uint32_t> uint32(const char* what);  // the index of no id is refused
  template <class IdType>
  Result<IdType> id(const char* what) {
    PIPER_ASSIGN(const uint32_t index, uint32(what));
    return IdType(index);
  }
  // "none" is an invalid id.
  template <class IdType>
  Result<IdType> id_or_none(const char* what) {
    PIPER_ASSIGN(const bool none, takes("none"));
    return none ? Result<IdType>(IdType()) : id<IdType>(what);
  }
  Result<double> number();
  Result<DType> dtype();
  Result<diag::Span> span();  // "@file:line:column+length"
  bool is_span() const { return token_.kind == TokenKind::kSpan; }

  // "[A, B]": `entry` reads one.
  template <class Entry>
  Status list(const Entry& entry) {
    PIPER_RETURN_IF_ERROR(want("["));
    for (bool first = true; !is("]"); first = false) {
      if (!first) PIPER_RETURN_IF_ERROR(want(","));
      PIPER_RETURN_IF_ERROR(entry());
    }
    return advance();
  }
  template <class T, class Entry>
  Result<std::vector<T>> list_of(const Entry& entry) {  // `entry` reads one A, a Result<T>
    std::vector<T> all;
    PIPER_RETURN_IF_ERROR(list([&]() -> Status {
      PIPER_ASSIGN(T one, entry());
      all.push_back(std::move(one));
      return {};
    }));
    return all;
  }
  Result<std::vector<int64_t>> integers() {
    return list_of<int64_t>([&] { return integer(); });
  }
  // "[A x3, B]" is A, A, A, B.
  template <class T, class Entry>
  Result<std::vector<T>> repeated(const Entry& entry) {
    std::vector<T> all;
    PIPER_RETURN_IF_ERROR(list([&]() -> Status {
      PIPER_ASSIGN(T one, entry());
      PIPER_ASSIGN(const size_t times, repeats());
      all.insert(all.end(), times, one);
      return {};
    }));
    return all;
  }
  // "x3" after an entry of a list; 1 where none is. Texts that ask for too many entries are refused.
  Result<size_t> repeats();
  // Counts entries that a text stands for and does not write: "x1000", "0..1000", a default of every microbatch.
  Status expand(const Token& at, uint64_t entries);
  // "[0..3, 5]" is 0, 1, 2, 3, 5.
  template <class T>
  Result<std::vector<T>> ranges(const char* what) {
    std::vector<T> all;
    PIPER_RETURN_IF_ERROR(list([&]() -> Status {
      PIPER_ASSIGN(const auto range, one_range(what));
      for (uint32_t i = range.first; i <= range.second; ++i) all.push_back(T(i));
      return {};
    }));
    return all;
  }
  // "{ ... }": `entry` reads one until the brace closes.
  template <class Entry>
  Status block(const Entry& entry) {
    PIPER_RETURN_IF_ERROR(want("{"));
    while (!is("}")) PIPER_RETURN_IF_ERROR(entry());
    return advance();
  }
  // The number of an entry of a table, which must be the next one.
  Status numbered(size_t next, const char* table);
  // "prov 0 model ...": the next entry, after the word prov.
  Status provenance_entry(Provenance& provenance);

 private:
  Result<std::pair<uint32_t, uint32_t>> one_range(const char* what);
  Lexer lexer_;
  Token token_;
  uint64_t expanded_ = 0;
};

}  // namespace piper::ir
