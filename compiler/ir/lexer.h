// Words of .pir text, with their places. Used by TextReader alone.
// `//` starts a comment that reaches to the end of the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/base/status.h"

namespace piper::ir {

enum class TokenKind : uint8_t {
  kWord,    // add, f32, 12, -1.5e-3, inf
  kValue,   // %name, %"any name"; text holds the name
  kString,  // "..."; text holds it without quotes and escapes
  kSpan,    // @1:5:3+7; text holds it without the @
  kPunct,   // one of { } ( ) [ ] , = :
  kEnd,
};
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  uint32_t line = 1, column = 1;
  bool is_word(std::string_view word) const { return kind == TokenKind::kWord && text == word; }
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {}
  // kEnd at the end, again and again. P0402: a character that begins no token, or a string without its end.
  Result<Token> next();
  // A P0402 failure "file:line:column: message".
  Status fail(const Token& at, const std::string& message) const;

 private:
  void skip();
  char get();
  Status read_string(Token& token);
  std::string_view text_, file_name_;
  size_t at_ = 0;
  uint32_t line_ = 1, column_ = 1;
};

}  // namespace piper::ir
