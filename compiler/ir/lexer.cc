// Cuts .pir text into words.
#include "compiler/ir/lexer.h"

namespace piper::ir {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '+' || c == '/';
}

}  // namespace

char Lexer::get() {
  char c = text_[at_++];
  if (c == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
  return c;
}

void Lexer::skip() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '/' && text_.substr(at_, 2) == "//") {
      while (at_ < text_.size() && text_[at_] != '\n') get();
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      get();
    } else {
      return;
    }
  }
}

Status Lexer::fail(const Token& at, const std::string& message) const {
  return Status::failure("P0402", std::string(file_name_) + ":" + std::to_string(at.line) + ":" +
                                      std::to_string(at.column) + ": " + message);
}

Status Lexer::read_string(Token& token) {
  get();  // the opening quote
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = get();
    if (c == '\n') return fail(token, "a string must end on its line");
    if (c == '\\') {
      if (at_ >= text_.size()) break;
      c = get();
      if (c == 'n') c = '\n';
    }
    token.text += c;
  }
  if (at_ >= text_.size()) return fail(token, "a string without an end");
  get();
  return {};
}

Result<Token> Lexer::next() {
  skip();
  Token token;
  token.line = line_;
  token.column = column_;
  if (at_ >= text_.size()) return token;
  char c = text_[at_];
  if (c == '"') {
    token.kind = TokenKind::kString;
    PIPER_RETURN_IF_ERROR(read_string(token));
    return token;
  }
  if (c == '%') {
    token.kind = TokenKind::kValue;
    get();
    if (at_ < text_.size() && text_[at_] == '"') {
      PIPER_RETURN_IF_ERROR(read_string(token));
    } else {
      while (at_ < text_.size() && is_word(text_[at_])) token.text += get();
    }
    if (token.text.empty()) return fail(token, "a value without a name");
    return token;
  }
  if (std::string_view("{}()[],=:").find(c) != std::string_view::npos) {
    token.kind = TokenKind::kPunct;
    token.text = get();
    return token;
  }
  if (c == '@') {
    token.kind = TokenKind::kSpan;
    get();
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == ':')) token.text += get();
    return token;
  }
  if (!is_word(c)) return fail(token, std::string("unexpected character '") + c + "'");
  token.kind = TokenKind::kWord;
  while (at_ < text_.size() && is_word(text_[at_]) && text_.substr(at_, 2) != "//") token.text += get();
  return token;
}

}  // namespace piper::ir
