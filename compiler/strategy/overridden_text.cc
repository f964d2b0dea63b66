#include "compiler/strategy/overridden_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "schemas/base/check.h"

namespace piper::strategy {
namespace {

bool is_scalar(const Value& value) { return value.kind != Value::Kind::kList && value.kind != Value::Kind::kMap; }

// Whether both mean the same, however they are written.
bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  if (is_scalar(a)) return a.kind == Value::Kind::kNull || a.text == b.text;
  const auto same_key = [](const Key& x, const Key& y) { return x.text == y.text; };
  return std::equal(a.keys.begin(), a.keys.end(), b.keys.begin(), b.keys.end(), same_key) &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same);
}

bool reads_as(const std::string& text, const Value& root) {
  diag::Diagnostics unheard;
  const auto read = read_yaml(unheard.add_file("strategy", text), text, 0, unheard);
  return read.ok() && same(*read, root);
}

std::string line_of(const Value& root, size_t entry) {
  return as_yaml(root.keys[entry].text) + ": " + flow_text(root.items[entry]) + "\n";
}

// A text in which places are to be replaced.
class Edited {
 public:
  explicit Edited(const std::string& text) : text_(text) {
    for (size_t at = 0; at < text_.size(); at = text_.find('\n', at) + 1) lines_.push_back(at);
  }

  // Whether all in which `now` differs from `before` can be replaced where it is; the edits are then made.
  bool replace(const Value& before, const Value& now) {
    std::vector<Edit> edits;
    if (!in_place(before, now, edits)) return false;
    edits_.insert(edits_.end(), std::make_move_iterator(edits.begin()), std::make_move_iterator(edits.end()));
    return true;
  }
  // Replaces the lines of an entry of the file, which end where the next one begins. Comments between them stay.
  bool replace_lines(const Value& root, size_t entry, const std::string& line) {
    const auto begin = line_that_begins(root, entry);
    const auto next = entry + 1 < root.keys.size() ? line_that_begins(root, entry + 1) : lines_.size();
    if (!begin || !next || *next <= *begin) return false;
    size_t end = *next;
    while (end > *begin + 1 && says_nothing(end - 1)) --end;
    edits_.push_back({lines_[*begin], begin_of(end) - lines_[*begin], line});
    return true;
  }

  std::optional<std::string> made() {
    std::sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.at > b.at; });
    std::string made = text_;
    size_t free = text_.size();
    for (const Edit& edit : edits_) {
      if (edit.at + edit.length > free) return std::nullopt;
      made.replace(edit.at, edit.length, edit.text);
      free = edit.at;
    }
    return made;
  }

 private:
  struct Edit {
    size_t at, length;
    std::string text;
  };

  bool in_place(const Value& before, const Value& now, std::vector<Edit>& edits) const {
    if (same(before, now)) return true;
    if (is_scalar(before)) {
      const auto length = length_of(before);
      if (length) edits.push_back({offset(before.span), *length, flow_text(now)});
      return length.has_value();
    }
    if (before.kind != now.kind || before.items.size() != now.items.size()) return false;
    for (size_t i = 0; i < before.items.size(); ++i) {
      if (i < before.keys.size() && before.keys[i].text != now.keys[i].text) return false;
      if (!in_place(before.items[i], now.items[i], edits)) return false;
    }
    return true;
  }
  // A scalar's characters, where it is written in one line; what is empty has none.
  std::optional<size_t> length_of(const Value& scalar) const {
    if (scalar.kind == Value::Kind::kNull || scalar.span.line > lines_.size()) return std::nullopt;
    const size_t at = offset(scalar.span);
    if (!scalar.quoted)
      return text_.compare(at, scalar.text.size(), scalar.text) == 0 ? std::optional(scalar.text.size()) : std::nullopt;
    const char quote = text_[at];
    if (quote != '"' && quote != '\'') return std::nullopt;
    for (size_t end = at + 1; end < text_.size() && text_[end] != '\n'; ++end) {
      const bool escapes = quote == '"' ? text_[end] == '\\' : text_.compare(end, 2, "''") == 0;
      if (escapes) ++end;
      else if (text_[end] == quote) return end + 1 - at;
    }
    return std::nullopt;
  }

  size_t offset(const diag::Span& span) const {
    return std::min(lines_[span.line - 1] + span.column - 1, text_.size() - 1);
  }
  size_t begin_of(size_t line) const { return line < lines_.size() ? lines_[line] : text_.size(); }
  std::optional<size_t> line_that_begins(const Value& root, size_t entry) const {
    const diag::Span& span = root.keys[entry].span;
    if (span.column != 1 || span.line > lines_.size()) return std::nullopt;
    return span.line - 1;
  }
  // A blank line or a comment.
  bool says_nothing(size_t line) const {
    const char first = text_[text_.find_first_not_of(" \t\r", lines_[line])];
    return first == '\n' || first == '#';
  }

  std::string text_;
  std::vector<size_t> lines_;  // where they begin
  std::vector<Edit> edits_;
};

std::optional<std::string> edited(const std::string& text, const Value& before, const Value& now) {
  if (before.kind != Value::Kind::kMap || before.keys.size() > now.keys.size()) return std::nullopt;
  Edited lines(text);
  std::string added;
  for (size_t i = 0; i < now.keys.size(); ++i) {
    if (i >= before.keys.size()) {
      added += line_of(now, i);
      continue;
    }
    if (before.keys[i].text != now.keys[i].text) return std::nullopt;
    if (!lines.replace(before.items[i], now.items[i]) && !lines.replace_lines(before, i, line_of(now, i)))
      return std::nullopt;
  }
  auto made = lines.made();
  if (made) *made += added;
  return made;
}

std::string ended(const std::string& text) { return text.empty() || text.back() != '\n' ? text + '\n' : text; }

}  // namespace

std::string rewritten(const std::string& text, const Value& before, const Value& now) {
  // An edit of what other entries refer to (anchors) would change these as well.
  const auto made = edited(ended(text), before, now);
  return made && reads_as(*made, now) ? *made : lines_of(now);
}

std::string lines_of(const Value& root) {
  std::string text;
  for (size_t i = 0; i < root.keys.size(); ++i) text += line_of(root, i);
  PIPER_CHECK(reads_as(text, root), "a strategy in lines reads differently:\n", text);
  return text;
}

bool takes_lines(const std::string& text, const Value& root) {
  Value more = root;
  more.keys.push_back({"added", {}});
  more.items.emplace_back();
  return reads_as(ended(text) + "added: null\n", more);
}

Result<std::optional<std::string>> overridden_text(const std::string& name, const std::string& text,
                                                   const std::vector<std::string>& overrides,
                                                   diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Value before, read_yaml(diags.add_file(name, text), text, 0, diags));
  if (before.kind == Value::Kind::kList) return std::optional<std::string>();
  Value now = before;
  for (const std::string& override : overrides) PIPER_RETURN_IF_ERROR(apply_override(now, override, diags));
  return std::optional(rewritten(text, before, now));
}

}  // namespace piper::strategy
