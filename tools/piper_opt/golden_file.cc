// Reads the comments of a golden file and compares.
#include "tools/piper_opt/golden_file.h"

#include <cstdlib>
#include <optional>
#include <sstream>

namespace piper::opt {
namespace {

std::string trimmed(std::string text) {
  size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);)
    if (!trimmed(part).empty()) parts.push_back(trimmed(part));
  return parts;
}

Result<ExpectedError> expected_error(const std::string& rest, uint32_t line) {
  ExpectedError e;
  size_t code = rest.find('P'), open = rest.find("{{"), close = rest.rfind("}}");
  if (code == std::string::npos || open == std::string::npos || close == std::string::npos || close < open)
    return Status::failure("", "line " + std::to_string(line) + ": expected `expect-error@+N CODE: {{text}}`");
  if (rest[0] == '@') {
    int64_t offset = std::strtol(rest.c_str() + 1, nullptr, 10);
    e.line = static_cast<uint32_t>(line + offset);
  }
  e.code = rest.substr(code, 5);
  e.text = rest.substr(open + 2, close - open - 2);
  return e;
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '-';
}

// Matches `pattern` at position `at` of `line`; binds names into `names`.
bool matches_at(const std::string& pattern, size_t p, const std::string& line, size_t at,
                std::map<std::string, std::string>& names) {
  while (p < pattern.size()) {
    size_t close = pattern.compare(p, 2, "[[") == 0 ? pattern.find("]]", p) : std::string::npos;
    if (close == std::string::npos) {
      if (at >= line.size() || line[at] != pattern[p]) return false;
      ++p;
      ++at;
      continue;
    }
    std::string name = pattern.substr(p + 2, close - p - 2);
    p = close + 2;
    auto bound = names.find(name);
    if (bound != names.end()) {
      if (line.compare(at, bound->second.size(), bound->second) != 0) return false;
      at += bound->second.size();
      if (at < line.size() && is_name_char(line[at])) return false;
      continue;
    }
    size_t end = at;
    while (end < line.size() && is_name_char(line[end])) ++end;
    if (end == at) return false;
    names[name] = line.substr(at, end - at);
    at = end;
  }
  return true;
}

bool holds(const std::string& line, const std::string& pattern, std::map<std::string, std::string>& names) {
  for (size_t at = 0; at <= line.size(); ++at) {
    std::map<std::string, std::string> bound = names;
    if (!matches_at(pattern, 0, line, at, bound)) continue;
    names = std::move(bound);
    return true;
  }
  return false;
}

}  // namespace

Result<GoldenFile> read_golden(const std::string& text) {
  GoldenFile golden;
  std::istringstream in(text);
  std::string line;
  for (uint32_t number = 1; std::getline(in, line); ++number) {
    size_t at = line.find("// ");
    size_t skip = 3;
    if (at == std::string::npos) {
      at = line.find("# ");
      skip = 2;
    }
    if (at == std::string::npos) continue;
    std::string comment = trimmed(line.substr(at + skip));
    auto after = [&](const char* key) {
      std::string k(key);
      return comment.compare(0, k.size(), k) == 0 ? std::optional<std::string>(trimmed(comment.substr(k.size())))
                                                  : std::nullopt;
    };
    if (auto passes = after("RUN-PASSES:")) {
      golden.passes = split(*passes, ',');
    } else if (auto params = after("PARAMS:")) {
      for (const std::string& param : split(*params, ',')) {
        size_t equals = param.find('=');
        if (equals == std::string::npos)
          return Status::failure("", "line " + std::to_string(number) + ": PARAMS wants KEY=VALUE");
        golden.params[trimmed(param.substr(0, equals))] = trimmed(param.substr(equals + 1));
      }
    } else if (auto model = after("COMPILE:")) {
      golden.model = *model;
    } else if (auto override_text = after("SET:")) {
      golden.overrides.push_back(*override_text);
    } else if (auto check = after("CHECK:")) {
      golden.checks.push_back({false, *check, number});
    } else if (auto absent = after("CHECK-NOT:")) {
      golden.checks.push_back({true, *absent, number});
    } else if (auto error = after("expect-error")) {
      PIPER_ASSIGN(ExpectedError e, expected_error(*error, number));
      golden.errors.push_back(std::move(e));
    }
  }
  return golden;
}

std::string broken_check(const GoldenFile& golden, const std::string& output) {
  std::vector<std::string> lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::map<std::string, std::string> names;
  std::vector<const Check*> absent;  // since the last CHECK
  size_t at = 0;
  auto absent_up_to = [&](size_t end) {
    for (const Check* check : absent)
      for (size_t i = at; i < end; ++i)
        if (holds(lines[i], check->text, names))
          return "line " + std::to_string(check->line) + ": CHECK-NOT: " + check->text + "\n  but: " + lines[i];
    absent.clear();
    return std::string();
  };
  for (const Check& check : golden.checks) {
    if (check.absent) {
      absent.push_back(&check);
      continue;
    }
    size_t found = at;
    while (found < lines.size() && !holds(lines[found], check.text, names)) ++found;
    if (found == lines.size()) return "line " + std::to_string(check.line) + ": nothing matches CHECK: " + check.text;
    if (std::string broken = absent_up_to(found); !broken.empty()) return broken;
    at = found + 1;
  }
  return absent_up_to(lines.size());
}

std::string broken_errors(const GoldenFile& golden, const std::vector<diag::Diagnostic>& given) {
  std::vector<bool> used(given.size(), false);
  for (const ExpectedError& e : golden.errors) {
    bool found = false;
    for (size_t i = 0; i < given.size() && !found; ++i) {
      const diag::Diagnostic& d = given[i];
      found = !used[i] && d.severity == diag::Severity::kError && d.code == e.code &&
              (e.line == 0 || d.span.line == e.line) && d.message.find(e.text) != std::string::npos;
      if (found) used[i] = true;
    }
    if (!found) return "missing error " + e.code + (e.line ? " at line " + std::to_string(e.line) : "") + ": " + e.text;
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (!used[i] && given[i].severity == diag::Severity::kError)
      return "unexpected error " + given[i].code + " at line " + std::to_string(given[i].span.line) + ": " +
             given[i].message;
  return "";
}

}  // namespace piper::opt
