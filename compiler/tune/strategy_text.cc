#include "compiler/tune/strategy_text.h"

#include <algorithm>
#include <optional>

#include "compiler/diag/diagnostics.h"
#include "compiler/strategy/value.h"

namespace piper::tune {
namespace {

using strategy::Value;

Status no(const std::string& why) { return Status::failure("", why); }

// A text with its tree and its lines.
class Text {
 public:
  static Result<Text> parse(const std::string& text) {
    Text parsed;
    parsed.text_ = text;
    if (parsed.text_.empty() || parsed.text_.back() != '\n') parsed.text_ += '\n';
    diag::Diagnostics diags;
    const uint32_t file = diags.add_file("strategy", parsed.text_);
    PIPER_ASSIGN(parsed.root_, strategy::read_yaml(file, parsed.text_, 0, diags));
    for (size_t at = 0; at < parsed.text_.size(); at = parsed.text_.find('\n', at) + 1) parsed.lines_.push_back(at);
    return parsed;
  }

  const std::string& text() const { return text_; }
  const Value& root() const { return root_; }
  const Value* directives() const { return root_.kind == Value::Kind::kList ? &root_ : root_.find("directives"); }

  size_t offset(const diag::Span& span) const { return lines_[span.line - 1] + span.column - 1; }
  size_t line_begin(size_t at) const { return text_.rfind('\n', at - (text_[at] == '\n' && at > 0 ? 1 : 0)) + 1; }
  size_t line_end(size_t at) const { return text_.find('\n', at); }  // of the line's "\n"
  bool is_flow(const Value& value) const {
    const char first = text_[offset(value.span)];
    return first == '{' || first == '[';
  }
  // Whether the line has nothing but blanks and a list's "- " before position `at`.
  bool begins_line(size_t at) const {
    return text_.substr(line_begin(at), at - line_begin(at)).find_first_not_of(" -") == std::string::npos;
  }
  // The end of a mapping or a list: after its last character.
  std::optional<size_t> end_of(const Value& value) const {
    if (is_flow(value)) return end_of_flow(offset(value.span));
    return end_of_block(value);
  }
  static size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

  // The comment as lines before the one that `at` lies in.
  std::string with_comment(size_t at, const std::string& comment, std::string edited) const {
    const size_t begin = line_begin(at);
    const std::string indent(indent_of(std::string_view(text_).substr(begin, line_end(at) - begin)), ' ');
    std::string lines;
    for (size_t from = 0; from < comment.size();) {
      const size_t to = std::min(comment.find('\n', from), comment.size());
      lines += indent + "# " + comment.substr(from, to - from) + "\n";
      from = to + 1;
    }
    return edited.insert(begin, lines);
  }

 private:
  // Brackets, outside of quotes and comments.
  std::optional<size_t> end_of_flow(size_t at) const {
    int depth = 0;
    char quote = 0;
    for (; at < text_.size(); ++at) {
      const char c = text_[at];
      if (quote != 0) {
        if (c == '\\' && quote == '"') ++at;
        else if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '#' && (text_[at - 1] == ' ' || text_[at - 1] == '\n')) {
        at = line_end(at);
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        return at + 1;
      }
    }
    return std::nullopt;
  }
  // The last line that is as deep as its first one; comments after it do not belong to it.
  std::optional<size_t> end_of_block(const Value& value) const {
    const size_t first = offset(value.span), depth = value.span.column - 1;
    const bool list = value.kind == Value::Kind::kList;
    size_t end = line_end(first);
    for (size_t at = end + 1; at < text_.size(); at = line_end(at) + 1) {
      const std::string_view line = std::string_view(text_).substr(at, line_end(at) - at);
      const size_t indent = indent_of(line);
      if (indent == line.size() || line[indent] == '#') continue;
      if (indent < depth || (indent == depth && list && line[indent] != '-')) break;
      end = line_end(at);
    }
    return end;
  }

  std::string text_;
  Value root_;
  std::vector<size_t> lines_;  // where they begin
};

Result<const Value*> directive_at(const Text& text, size_t directive) {
  const Value* list = text.directives();
  if (list == nullptr || directive >= list->items.size()) return no("there is no such directive");
  if (list->items[directive].kind != Value::Kind::kMap) return no("the directive is no mapping");
  return &list->items[directive];
}

std::string items_of_block(const std::vector<std::string>& yaml, size_t indent) {
  std::string lines;
  for (const std::string& one : yaml) lines += std::string(indent, ' ') + "- " + wrapped(one, indent + 4) + "\n";
  return lines;
}
std::string commented(const std::string& comment, size_t indent) {
  if (comment.empty()) return "";
  std::string lines = std::string(indent, ' ') + "# ";
  for (const char c : comment) lines += c == '\n' ? "\n" + std::string(indent, ' ') + "# " : std::string(1, c);
  return lines + "\n";
}

// Adds items after those of the list of directives, or the list itself before the line at `where`.
Result<std::string> add(const Text& text, const std::vector<std::string>& yaml, const std::string& comment,
                        size_t where) {
  const Value* list = text.directives();
  std::string edited = text.text();
  if (list == nullptr || list->kind == Value::Kind::kNull) {
    if (list != nullptr || text.root().kind != Value::Kind::kMap || text.is_flow(text.root()))
      return no("the file has no list of directives to add to");
    return edited.insert(where, "directives:\n" + commented(comment, 2) + items_of_block(yaml, 2));
  }
  const auto end = text.end_of(*list);
  if (list->kind != Value::Kind::kList || !end) return no("the end of the directives is not clear");
  if (!text.is_flow(*list)) {
    const size_t indent = list->span.column - 1;
    return edited.insert(*end + 1, commented(comment, indent) + items_of_block(yaml, indent));
  }
  std::string items;
  for (const std::string& one : yaml) items += (items.empty() ? "  " : ",\n  ") + wrapped(one, 4);
  return edited.insert(*end - 1, (list->items.empty() ? "\n" : ",\n") + commented(comment, 2) + items + "\n  ");
}

struct CommentedOut {
  std::string text;
  size_t behind = 0;  // the lines of the comment
};
// A key of the file with its value, of lines of their own, as a comment.
Result<CommentedOut> as_comment(const std::string& text, std::string_view key) {
  PIPER_ASSIGN(const Text parsed, Text::parse(text));
  const Value& root = parsed.root();
  size_t place = 0;
  while (place < root.keys.size() && root.keys[place].text != key) ++place;
  if (place == root.keys.size() || parsed.is_flow(root)) return no("'" + std::string(key) + "' has no line of its own");
  const size_t begin = parsed.offset(root.keys[place].span);
  const auto end = parsed.end_of(root.items[place]);
  if (!end || parsed.line_begin(begin) != begin) return no("the end of '" + std::string(key) + "' is not clear");
  const size_t last = parsed.line_end(*end - 1);
  std::string old, edited = parsed.text();
  for (size_t at = begin; at <= last; at = parsed.line_end(at) + 1)
    old += "# " + edited.substr(at, parsed.line_end(at) - at) + "\n";
  edited.replace(begin, last + 1 - begin, old);
  return CommentedOut{std::move(edited), begin + old.size()};
}

// Whether a list of devices, here or below, is written as axes of the mesh.
bool names_axes(const Value* value) {
  if (value == nullptr) return false;
  for (size_t i = 0; i < value->items.size(); ++i) {
    const bool devices = value->kind == Value::Kind::kMap && value->keys[i].text == "devices";
    const Value& item = value->items[i];
    const auto is_map = [](const Value& one) { return one.kind == Value::Kind::kMap; };
    if (devices && (is_map(item) || std::any_of(item.items.begin(), item.items.end(), is_map))) return true;
    if (!devices && names_axes(&item)) return true;
  }
  return false;
}

}  // namespace

std::string wrapped(const std::string& yaml, size_t indent) {
  constexpr size_t kColumns = 116;
  std::string text;
  size_t column = indent;
  for (size_t at = 0; at < yaml.size();) {
    const size_t next = std::min(yaml.find("], [", at), yaml.size()), end = std::min(next + 3, yaml.size());
    if (at > 0 && column + (end - at) > kColumns) {
      while (!text.empty() && text.back() == ' ') text.pop_back();
      text += "\n" + std::string(indent, ' ');
      column = indent;
    }
    text += yaml.substr(at, end - at);
    column += end - at;
    at = end;
  }
  return text;
}

Result<std::vector<size_t>> directives_of(const std::string& text, std::string_view op) {
  PIPER_ASSIGN(const Text parsed, Text::parse(text));
  std::vector<size_t> found;
  const Value* list = parsed.directives();
  for (size_t i = 0; list != nullptr && i < list->items.size(); ++i)
    if (const Value* name = list->items[i].find("op"); name != nullptr && name->text == op) found.push_back(i);
  return found;
}

Result<std::string> key_of(const std::string& text, size_t directive, std::string_view key) {
  PIPER_ASSIGN(const Text parsed, Text::parse(text));
  PIPER_ASSIGN(const Value* item, directive_at(parsed, directive));
  const Value* value = item->find(key);
  return value == nullptr ? std::string() : value->text;
}

Result<std::string> with_key(const std::string& text, size_t directive, std::string_view key, const std::string& value,
                             const std::string& comment) {
  PIPER_ASSIGN(const Text parsed, Text::parse(text));
  PIPER_ASSIGN(const Value* item, directive_at(parsed, directive));
  const Value* old = item->find(key);
  const Value* at = old == nullptr ? item->find("op") : old;
  const size_t begin = parsed.offset(at->span), end = begin + at->span.length;
  std::string edited = parsed.text();
  if (edited.substr(begin, at->text.size() + (at->quoted ? 1 : 0)).find(at->text) == std::string::npos)
    return no("a value is not where it was read");
  if (old != nullptr) edited.replace(begin, end - begin, value);
  else if (parsed.is_flow(*item)) edited.insert(end, ", " + std::string(key) + ": " + value);
  else
    edited.insert(parsed.line_end(begin),
                  "\n" + std::string(item->span.column - 1, ' ') + std::string(key) + ": " + value);
  return parsed.with_comment(parsed.offset(item->span), comment, std::move(edited));
}

Result<std::string> without_directive(const std::string& text, size_t directive, const std::string& comment) {
  PIPER_ASSIGN(const Text parsed, Text::parse(text));
  PIPER_ASSIGN(const Value* item, directive_at(parsed, directive));
  const Value& list = *parsed.directives();
  const auto end = parsed.end_of(*item);
  if (!end) return no("the end of the directive is not clear");
  const size_t begin = parsed.offset(item->span);
  std::string edited = parsed.text();
  if (!parsed.is_flow(list)) {
    if (!parsed.begins_line(begin)) return no("the directive does not begin its line");
    const size_t from = parsed.line_begin(begin), to = parsed.line_end(*end - (parsed.is_flow(*item) ? 0 : 1));
    const std::string indent(list.span.column - 1, ' ');
    edited.replace(from, to - from, list.items.size() == 1 ? indent + "  []" : "");
    if (list.items.size() > 1) edited.erase(from, 1);  // the line's end
    return parsed.with_comment(begin, comment, std::move(edited));
  }
  size_t from = begin, to = *end;
  const size_t comma = edited.find_first_not_of(" \n", to);
  if (edited[comma] == ',') to = comma + 1;
  else if (directive > 0) from = edited.rfind(',', begin);
  edited.erase(from, to - from);
  return parsed.with_comment(parsed.offset(list.span), comment, std::move(edited));
}

Result<std::string> with_directive_replaced(const std::string& text, size_t directive, const std::string& yaml,
                                            const std::string& comment) {
  PIPER_ASSIGN(const Text parsed, Text::parse(text));
  PIPER_ASSIGN(const Value* item, directive_at(parsed, directive));
  const size_t begin = parsed.offset(item->span);
  const auto end = parsed.end_of(*item);
  if (!end) return no("the end of the directive is not clear");
  std::string edited = parsed.text();
  edited.replace(begin, *end - begin, wrapped(yaml, item->span.column + 1));
  return parsed.with_comment(begin, comment, std::move(edited));
}

Result<std::string> with_directives(const std::string& text, const std::vector<std::string>& yaml,
                                    const std::string& comment) {
  PIPER_ASSIGN(const Text parsed, Text::parse(text));
  return add(parsed, yaml, comment, parsed.text().size());
}

Result<std::string> with_directives_for_schedule(const std::string& text, const std::vector<std::string>& yaml,
                                                 const std::string& comment) {
  PIPER_ASSIGN(const CommentedOut without, as_comment(text, "schedule"));
  PIPER_ASSIGN(const Text rest, Text::parse(without.text));
  PIPER_ASSIGN(std::string edited, add(rest, yaml, comment, without.behind));
  if (rest.root().find("mesh") == nullptr || names_axes(rest.directives())) return edited;
  for (const char* key : {"mesh", "node"}) {
    if (rest.root().find(key) == nullptr) continue;
    PIPER_ASSIGN(CommentedOut more, as_comment(edited, key));
    edited = std::move(more.text);
  }
  return edited;
}

}  // namespace piper::tune
