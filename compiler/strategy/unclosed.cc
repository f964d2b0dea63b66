#include "compiler/strategy/unclosed.h"

#include <cctype>
#include <vector>

namespace piper::strategy {
namespace {

struct Bracket {
  uint32_t line = 1, column = 1;
  size_t indent = 0;  // of its line
  char kind = '{';
};

// Whether a line holds a key or an entry of a list at its beginning, `at` being its first character that is no space.
bool begins_an_entry(const std::string& text, size_t at) {
  if (text[at] == '-') return at + 1 < text.size() && text[at + 1] == ' ';
  const size_t word = at;
  while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_')) ++at;
  return at > word && at < text.size() && text[at] == ':' &&
         (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\n');
}

// Whether a quote or a bracket at `at` begins a value: in the middle of a word it is a part of that.
bool begins_a_value(const std::string& text, size_t at) {
  size_t before = at;
  while (before > 0 && text[before - 1] == ' ') --before;
  if (before == 0 || text[before - 1] == '\n') return true;
  const char c = text[before - 1];
  if (c == '{' || c == '[' || c == ',') return true;
  return (c == ':' || c == '-') && before < at;
}

}  // namespace

std::optional<Unclosed> find_unclosed(uint32_t file, const std::string& text) {
  std::vector<Bracket> open;
  uint32_t line = 1;
  size_t line_begins = 0, indent = 0;
  const auto place = [&](const Bracket& bracket) {
    return Unclosed{{file, bracket.line, bracket.column, 1}, bracket.kind};
  };
  const auto begin_line = [&](size_t at) {
    line_begins = at;
    indent = 0;
    while (at + indent < text.size() && text[at + indent] == ' ') ++indent;
    return !open.empty() && at + indent < text.size() && indent <= open.front().indent &&
           begins_an_entry(text, at + indent);
  };
  begin_line(0);
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      if (begin_line(at + 1)) return place(open.back());
    } else if (c == '#' && (at == 0 || std::isspace(static_cast<unsigned char>(text[at - 1])) != 0)) {
      while (at + 1 < text.size() && text[at + 1] != '\n') ++at;
    } else if ((c == '"' || c == '\'') && begins_a_value(text, at)) {
      for (++at; at < text.size() && text[at] != c; ++at) {
        if (c == '"' && text[at] == '\\') ++at;
        if (at < text.size() && text[at] == '\n') {
          ++line;
          line_begins = at + 1;
        }
      }
    } else if ((c == '{' || c == '[') && (!open.empty() || begins_a_value(text, at))) {
      open.push_back({line, static_cast<uint32_t>(at - line_begins) + 1, indent, c});
    } else if ((c == '}' || c == ']') && !open.empty()) {
      if ((c == '}') != (open.back().kind == '{')) return place(open.back());
      open.pop_back();
    }
  }
  if (open.empty()) return std::nullopt;
  return place(open.back());
}

}  // namespace piper::strategy
