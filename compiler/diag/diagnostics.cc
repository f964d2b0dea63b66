#include "compiler/diag/diagnostics.h"

#include <algorithm>
#include <utility>

#include "schemas/base/check.h"

namespace piper::diag {
namespace {

// A broken file can produce an error per byte; what nobody will read is only counted.
constexpr size_t kMaxKept = 500;

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    size_t stop = end;
    if (stop > begin && text[stop - 1] == '\r') --stop;
    lines.push_back(text.substr(begin, stop - begin));
    begin = end + 1;
  }
  return lines;
}

bool same(const Diagnostic& a, const Diagnostic& b) {
  return a.severity == b.severity && a.code == b.code && a.message == b.message && a.span.file == b.span.file &&
         a.span.line == b.span.line && a.span.column == b.span.column;
}

Diagnostic begun(Severity severity, std::string code, Span span) {
  Diagnostic d;
  d.severity = severity;
  d.code = std::move(code);
  d.span = span;
  return d;
}

}  // namespace

InFlight::InFlight(Diagnostics& owner, Diagnostic diagnostic) : owner_(&owner), diagnostic_(std::move(diagnostic)) {}

InFlight::InFlight(InFlight&& other) noexcept
    : owner_(other.owner_), diagnostic_(std::move(other.diagnostic_)), text_(std::move(other.text_)) {
  other.owner_ = nullptr;
}

InFlight::~InFlight() { finish(); }

void InFlight::finish() {
  if (owner_ == nullptr) return;
  diagnostic_.message = text_.str();
  Diagnostics* owner = std::exchange(owner_, nullptr);
  owner->take(diagnostic_);
}

InFlight& InFlight::note(std::string text, Span span) {
  diagnostic_.notes.emplace_back(span, std::move(text));
  return *this;
}

InFlight& InFlight::help(std::string text) {
  diagnostic_.help = std::move(text);
  return *this;
}

InFlight::operator Status() {
  const std::string code = diagnostic_.code;
  finish();
  return Status::reported(code);
}

uint32_t Diagnostics::add_file(std::string name, std::string text) {
  files_.push_back({std::move(name), split_lines(text)});
  return static_cast<uint32_t>(files_.size());  // 0 stays free for "none"
}

const std::string& Diagnostics::file_name(uint32_t file) const {
  static const std::string kNone;
  return file == 0 || file > files_.size() ? kNone : files_[file - 1].name;
}

std::string Diagnostics::place(Span span) const {
  if (span.file == 0) return "";
  const std::string& name = file_name(span.file);
  const size_t slash = name.find_last_of('/');
  return (slash == std::string::npos ? name : name.substr(slash + 1)) + ":" + std::to_string(span.line) + ":" +
         std::to_string(span.column);
}

InFlight Diagnostics::error(std::string code, Span span) {
  return InFlight(*this, begun(Severity::kError, std::move(code), span));
}
InFlight Diagnostics::warning(std::string code, Span span) {
  return InFlight(*this, begun(Severity::kWarning, std::move(code), span));
}

void Diagnostics::remark(std::string text, Span span) {
  Diagnostic d = begun(Severity::kNote, "", span);
  d.message = std::move(text);
  take(std::move(d));
}

void Diagnostics::take(Diagnostic diagnostic) {
  const bool is_error = diagnostic.severity == Severity::kError;
  // The same mistake can be met on several ways through a program; it is reported once.
  const bool known =
      std::any_of(list_.begin(), list_.end(), [&](const Diagnostic& other) { return same(other, diagnostic); });
  if (known && (!is_error || num_errors_ > 0)) return;
  if (is_error) ++num_errors_;
  if (list_.size() < kMaxKept || (is_error && num_errors_ == 1)) list_.push_back(std::move(diagnostic));
}

void Diagnostics::append(Diagnostics&& other) {
  PIPER_CHECK(other.files_.empty(), "its files would need new numbers");
  for (Diagnostic& diagnostic : other.list_) take(std::move(diagnostic));
}

}  // namespace piper::diag
