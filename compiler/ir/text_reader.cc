// Words, lists and provenance entries of text forms.
#include "compiler/ir/text_reader.h"

#include <charconv>
#include <cstdlib>
#include <limits>

namespace piper::ir {
namespace {

// What abbreviated lists of one text may stand for, so that a damaged text cannot ask for all memory.
constexpr uint64_t kMostExpanded = uint64_t{1} << 24;
// After ids only invalid ones follow.
constexpr int64_t kMostIndex = std::numeric_limits<uint32_t>::max() - int64_t{1};

bool read_all(std::string_view text, int64_t& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

}  // namespace

Status TextReader::advance() {
  PIPER_ASSIGN(token_, lexer_.next());
  return {};
}

Status TextReader::want(const char* punct) {
  if (!is(punct)) return fail(std::string("expected '") + punct + "'");
  return advance();
}

Status TextReader::want_word(const char* word) {
  if (!is_word(word)) return fail(std::string("expected '") + word + "'");
  return advance();
}

Result<bool> TextReader::takes(const char* word) {
  const bool found = is_word(word);
  if (found) PIPER_RETURN_IF_ERROR(advance());
  return found;
}

Result<std::string> TextReader::string() {
  if (token_.kind != TokenKind::kString) return fail("expected a string");
  std::string text = token_.text;
  PIPER_RETURN_IF_ERROR(advance());
  return text;
}

Result<int64_t> TextReader::integer() {
  int64_t value = 0;
  if (token_.kind != TokenKind::kWord || !read_all(token_.text, value)) return fail("expected an integer");
  PIPER_RETURN_IF_ERROR(advance());
  return value;
}

Result<int64_t> TextReader::integer_in(int64_t least, int64_t most, const char* what) {
  const Token at = token_;
  int64_t value = 0;
  if (token_.kind != TokenKind::kWord || !read_all(token_.text, value))
    return fail(std::string("expected ") + what + ", an integer");
  if (value < least || value > most)
    return fail(at, std::string("expected ") + what + " from " + std::to_string(least) + " to " + std::to_string(most));
  PIPER_RETURN_IF_ERROR(advance());
  return value;
}

Result<int32_t> TextReader::int32(const char* what) {
  PIPER_ASSIGN(const int64_t value, integer_in(0, std::numeric_limits<int32_t>::max(), what));
  return static_cast<int32_t>(value);
}

Result<uint32_t> TextReader::uint32(const char* what) {
  PIPER_ASSIGN(const int64_t value, integer_in(0, kMostIndex, what));
  return static_cast<uint32_t>(value);
}

Result<double> TextReader::number() {
  char* end = nullptr;
  const double value = std::strtod(token_.text.c_str(), &end);
  if (token_.kind != TokenKind::kWord || token_.text.empty() || *end) return fail("expected a number");
  PIPER_RETURN_IF_ERROR(advance());
  return value;
}

Result<DType> TextReader::dtype() {
  const std::optional<DType> type = dtype_from_name(token_.text);
  if (token_.kind != TokenKind::kWord || !type) return fail("expected an element type");
  PIPER_RETURN_IF_ERROR(advance());
  return *type;
}

Result<diag::Span> TextReader::span() {
  if (!is_span()) return fail("expected a place, @FILE:LINE:COLUMN+LENGTH");
  uint32_t parts[4] = {};
  const char *at = token_.text.data(), *const end = at + token_.text.size();
  for (size_t i = 0; i < 4; ++i) {
    const auto read = std::from_chars(at, end, parts[i]);
    const bool last = i == 3;
    if (read.ec != std::errc() || (last ? read.ptr != end : read.ptr == end || *read.ptr != (i == 2 ? '+' : ':')))
      return fail("expected a place, @FILE:LINE:COLUMN+LENGTH");
    at = read.ptr + 1;
  }
  PIPER_RETURN_IF_ERROR(advance());
  return diag::Span{parts[0], parts[1], parts[2], parts[3]};
}

Status TextReader::expand(const Token& at, uint64_t entries) {
  expanded_ += entries;
  return expanded_ > kMostExpanded ? fail(at, "too many entries") : Status();
}

Result<size_t> TextReader::repeats() {
  if (token_.kind != TokenKind::kWord || token_.text.substr(0, 1) != "x") return size_t{1};
  int64_t times = 0;
  if (!read_all(std::string_view(token_.text).substr(1), times) || times < 1 ||
      times > static_cast<int64_t>(kMostExpanded))
    return fail("expected how often, x2");
  PIPER_RETURN_IF_ERROR(expand(token_, static_cast<uint64_t>(times)));
  PIPER_RETURN_IF_ERROR(advance());
  return static_cast<size_t>(times);
}

Result<std::pair<uint32_t, uint32_t>> TextReader::one_range(const char* what) {
  const size_t dots = token_.kind == TokenKind::kWord ? token_.text.find("..") : std::string::npos;
  if (dots == std::string::npos) {
    PIPER_ASSIGN(const int32_t one, int32(what));
    return std::pair(static_cast<uint32_t>(one), static_cast<uint32_t>(one));
  }
  int64_t first = 0, last = 0;
  const std::string_view text = token_.text;
  if (!read_all(text.substr(0, dots), first) || !read_all(text.substr(dots + 2), last) || first < 0 || last < first ||
      last > std::numeric_limits<int32_t>::max())
    return fail(std::string("expected ") + what + " or a range, FIRST..LAST");
  PIPER_RETURN_IF_ERROR(expand(token_, static_cast<uint64_t>(last - first) + 1));
  PIPER_RETURN_IF_ERROR(advance());
  return std::pair(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
}

Status TextReader::numbered(size_t next, const char* table) {
  const Token at = token_;
  PIPER_ASSIGN(const int64_t index, integer());
  return index == static_cast<int64_t>(next) ? Status()
                                             : fail(at, std::string(table) + " are numbered in order from 0");
}

Status TextReader::provenance_entry(Provenance& provenance) {
  const Token at = token_;
  const size_t index = provenance.size();
  PIPER_RETURN_IF_ERROR(numbered(index, "provenance entries"));
  const Token kind = token_;
  PIPER_RETURN_IF_ERROR(advance());
  if (kind.text == "model") {
    ModelOrigin origin;
    PIPER_ASSIGN(origin.node, string());
    PIPER_ASSIGN(origin.scope, string());
    PIPER_ASSIGN(origin.source, string());
    provenance.model(std::move(origin));
  } else if (kind.text == "directive") {
    DirectiveOrigin origin;
    PIPER_ASSIGN(origin.directive, string());
    PIPER_ASSIGN(origin.place, string());
    provenance.directive(std::move(origin));
  } else if (kind.text == "derived") {
    PIPER_ASSIGN(std::string pass, string());
    PIPER_ASSIGN(const std::vector<int64_t> indices, integers());
    std::vector<ProvId> parents;
    for (const int64_t parent : indices) {
      if (parent < -1 || parent >= static_cast<int64_t>(index)) return fail(at, "a parent must come before its entry");
      parents.push_back(parent < 0 ? ProvId() : ProvId(static_cast<size_t>(parent)));
    }
    std::string why;
    if (token_.kind == TokenKind::kString) {
      PIPER_ASSIGN(why, string());
    }
    provenance.derived(std::move(pass), std::move(parents), std::move(why));
  } else if (kind.text == "unknown") {
    PIPER_ASSIGN(std::string why, string());
    provenance.unknown(std::move(why));
  } else {
    return fail(kind, "expected model, directive, derived or unknown");
  }
  return provenance.size() == index + 1 ? Status() : fail(at, "the entry appears twice");
}

}  // namespace piper::ir
