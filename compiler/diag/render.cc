// Text and JSON form of the collected diagnostics.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/diag/diagnostics.h"
#include "compiler/diag/explain.h"

namespace piper::diag {
namespace {

constexpr size_t kMaxShown = 20;
constexpr size_t kWindow = 110;  // bytes of a source line that are shown

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
  }
  return "";
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The source line and a caret line below it. Columns are bytes; a code point takes one cell.
void append_source(std::string& out, const std::string& line, const Span& span) {
  const size_t at = std::min<size_t>(span.column > 0 ? span.column - 1 : 0, line.size());
  size_t begin = 0, end = line.size();
  if (line.size() > kWindow) {  // a program on one line: show what is near the caret
    begin = at > kWindow / 2 ? at - kWindow / 2 : 0;
    end = std::min(line.size(), begin + kWindow);
    while (begin > 0 && is_continuation(line[begin])) --begin;
    while (end < line.size() && is_continuation(line[end])) ++end;
  }
  std::string number = std::to_string(span.line);
  if (number.size() < 2) number.insert(0, " ");
  const std::string lead = begin > 0 ? "..." : "";
  out += "  " + number + " | " + lead;
  for (size_t i = begin; i < end; ++i) {
    const char c = line[i];
    out += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '?' : c;
  }
  out += end < line.size() ? "...\n" : "\n";
  out += "  " + std::string(number.size(), ' ') + " | " + std::string(lead.size(), ' ');
  for (size_t i = begin; i < at; ++i) {
    if (!is_continuation(line[i])) out += line[i] == '\t' ? '\t' : ' ';
  }
  out += '^';
  for (size_t i = at + 1; i < end && i < at + span.length; ++i) {
    if (is_continuation(line[i])) continue;
    out += '~';
  }
  out += '\n';
}

// Spans without a place come last; otherwise file, line, column. Stable.
bool before(const Diagnostic* a, const Diagnostic* b) {
  const bool none_a = a->span.file == 0, none_b = b->span.file == 0;
  if (none_a != none_b) return none_b;
  if (a->span.file != b->span.file) return a->span.file < b->span.file;
  if (a->span.line != b->span.line) return a->span.line < b->span.line;
  return a->span.column < b->span.column;
}

std::vector<const Diagnostic*> in_source_order(const std::vector<Diagnostic>& list, bool verbose) {
  std::vector<const Diagnostic*> sorted;
  for (const Diagnostic& d : list) {
    if (d.severity != Severity::kNote || verbose) sorted.push_back(&d);
  }
  std::stable_sort(sorted.begin(), sorted.end(), before);
  return sorted;
}

// What the place of the error says, else what its code says of all such errors.
std::string help_of(const Diagnostic& d) {
  if (!d.help.empty() || d.severity != Severity::kError) return d.help;
  const auto& codes = all_codes();
  const auto entry =
      std::find_if(codes.begin(), codes.end(), [&](const CodeEntry& each) { return each.code == d.code; });
  return entry == codes.end() ? "" : std::string(entry->fix);
}

}  // namespace

std::string Diagnostics::render_text(bool verbose) const {
  std::string out;
  size_t shown = 0;
  auto show_source = [&](const Span& span) {
    if (span.file == 0 || span.file > files_.size() || span.line == 0) return;
    const File& file = files_[span.file - 1];
    if (span.line <= file.lines.size()) append_source(out, file.lines[span.line - 1], span);
  };
  auto head = [&](const Span& span) {
    if (span.file != 0) {
      out += file_name(span.file);
      if (span.line != 0) out += ":" + std::to_string(span.line) + ":" + std::to_string(span.column);
      out += ": ";
    }
  };
  for (const Diagnostic* d : in_source_order(list_, verbose)) {
    if (d->severity == Severity::kError && ++shown > kMaxShown) continue;
    head(d->span);
    out += severity_name(d->severity);
    if (!d->code.empty()) out += "[" + d->code + "]";
    out += ": " + d->message + "\n";
    show_source(d->span);
    for (const auto& [span, text] : d->notes) {
      head(span);
      out += "note: " + text + "\n";
      show_source(span);
    }
    const std::string explain = d->code.empty() ? "" : "(piperc --explain " + d->code + ")";
    const std::string help = help_of(*d);
    if (!help.empty()) out += "help: " + help + (explain.empty() ? "" : "   " + explain) + "\n";
    else if (d->severity == Severity::kError && !explain.empty()) out += "help: " + explain + "\n";
  }
  if (num_errors_ > kMaxShown) out += std::to_string(num_errors_ - kMaxShown) + " more errors are not shown\n";
  return out;
}

std::string Diagnostics::render_json() const {
  using Json = nlohmann::ordered_json;
  auto with_span = [&](Json& object, const Span& span) {
    if (span.file == 0) return;
    object["file"] = file_name(span.file);
    object["line"] = span.line;
    object["column"] = span.column;
    object["length"] = span.length;
  };
  Json list = Json::array();
  size_t shown = 0;
  for (const Diagnostic* d : in_source_order(list_, true)) {
    if (d->severity == Severity::kError && ++shown > kMaxShown) continue;
    Json object;
    object["severity"] = severity_name(d->severity);
    if (!d->code.empty()) object["code"] = d->code;
    object["message"] = d->message;
    with_span(object, d->span);
    if (!d->notes.empty()) {
      Json notes = Json::array();
      for (const auto& [span, text] : d->notes) {
        Json note;
        note["message"] = text;
        with_span(note, span);
        notes.push_back(std::move(note));
      }
      object["notes"] = std::move(notes);
    }
    if (const std::string help = help_of(*d); !help.empty()) object["help"] = help;
    list.push_back(std::move(object));
  }
  Json root;
  root["errors"] = num_errors_;
  root["diagnostics"] = std::move(list);
  // A file's bytes may be no UTF-8; they are replaced, never an exception.
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace piper::diag
