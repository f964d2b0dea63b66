// --set KEY=VALUE: changes the tree before the loader sees it, so that an overridden value is
// checked like a written one and its diagnostics point into the command line.
#include <charconv>

#include "compiler/strategy/value.h"

namespace piper::strategy {
namespace {

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t dot = path.find('.', begin);
    parts.push_back(path.substr(begin, dot == std::string::npos ? std::string::npos : dot - begin));
    if (dot == std::string::npos) return parts;
    begin = dot + 1;
  }
}

}  // namespace

Status apply_override(Value& root, const std::string& text, diag::Diagnostics& diags) {
  const uint32_t file = diags.add_file("--set", text);
  const size_t equals = text.find('=');
  const diag::Span whole{file, 1, 1, static_cast<uint32_t>(text.empty() ? 1 : text.size())};
  if (equals == std::string::npos || equals == 0) {
    return diags.error("P0103", whole).help("for example --set model.batch=64") << "'" << text << "' is not KEY=VALUE";
  }
  Value value;
  if (equals + 1 < text.size()) {
    PIPER_ASSIGN(value, read_yaml(file, text.substr(equals + 1), static_cast<uint32_t>(equals + 1), diags));
  } else {
    value.span = whole;
  }
  Value* at = &root;
  uint32_t column = 1;
  for (const std::string& part : split_path(text.substr(0, equals))) {
    const diag::Span span{file, 1, column, static_cast<uint32_t>(part.empty() ? 1 : part.size())};
    column += static_cast<uint32_t>(part.size()) + 1;
    if (part.empty()) return diags.error("P0103", span) << "an empty part in the key";
    if (at->kind == Value::Kind::kNull) {  // an empty or missing mapping is made
      at->kind = Value::Kind::kMap;
      at->span = span;
    }
    if (at->kind == Value::Kind::kMap) {
      Value* next = at->find(part);
      if (next == nullptr) {
        at->keys.push_back({part, span});
        at->items.emplace_back();
        at->items.back().span = span;
        next = &at->items.back();
      }
      at = next;
    } else if (at->kind == Value::Kind::kList) {
      size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size() || index >= at->items.size()) {
        return diags.error("P0103", span).note("the list is here", at->span)
               << "'" << part << "' is not a position in a list of " << at->items.size() << " (counted from 0)";
      }
      at = &at->items[index];
    } else {
      return diags.error("P0103", span).note("the value is here", at->span)
             << "'" << part << "' leads into " << describe(*at) << ", which has no keys";
    }
  }
  *at = std::move(value);
  return {};
}

}  // namespace piper::strategy
