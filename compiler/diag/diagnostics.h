// Diagnostics: what a user reads when something is wrong. `diags.error("P0203", span) << ...`
// reports and converts to a failed Status or Result in one expression. Rendering (caret, notes,
// help, or JSON) is here too. Codes are in codes.def, each with a page in docs/errors/.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "schemas/base/nearest.h"
#include "schemas/base/status.h"

namespace piper::diag {

// A place in a source file; file 0 = none. Lines and columns count from 1.
struct Span {
  uint32_t file = 0, line = 0, column = 0, length = 1;
  friend bool operator==(const Span&, const Span&) = default;
};

enum class Severity : uint8_t { kError, kWarning, kNote };

struct Diagnostic {
  Severity severity = Severity::kError;
  std::string code;
  Span span;
  std::string message;
  std::vector<std::pair<Span, std::string>> notes;  // printed in order, each with its own place
  std::string help;
};

class Diagnostics;

// An error under construction; reported when it goes out of scope.
class InFlight {
 public:
  InFlight(InFlight&&) noexcept;
  InFlight(const InFlight&) = delete;
  ~InFlight();
  template <class T>
  InFlight& operator<<(const T& part) {
    text_ << part;
    return *this;
  }
  InFlight& note(std::string text, Span span = {});
  InFlight& help(std::string text);
  operator Status();
  template <class T>
  operator Result<T>() {
    return Result<T>(static_cast<Status>(*this));
  }

 private:
  friend class Diagnostics;
  InFlight(Diagnostics& owner, Diagnostic diagnostic);
  void finish();
  Diagnostics* owner_;
  Diagnostic diagnostic_;
  std::ostringstream text_;
};

// Collects diagnostics of one compilation, at most 20 errors, and renders them in source order.
class Diagnostics {
 public:
  // Registers a file's text, so that its lines can be shown. `name` is what the user typed.
  uint32_t add_file(std::string name, std::string text);
  const std::string& file_name(uint32_t file) const;
  std::string place(Span span) const;  // "s.yaml:14:12" with the base name

  InFlight error(std::string code, Span span = {});
  InFlight warning(std::string code, Span span = {});
  // A remark of `--verbose`; kept apart from errors.
  void remark(std::string text, Span span = {});

  // Adds those of another, which speak of no file, after these.
  void append(Diagnostics&& other);

  size_t num_errors() const { return num_errors_; }
  bool failed() const { return num_errors_ > 0; }
  const std::vector<Diagnostic>& all() const { return list_; }
  std::string render_text(bool verbose) const;
  std::string render_json() const;

 private:
  friend class InFlight;
  void take(Diagnostic diagnostic);
  struct File {
    std::string name;
    std::vector<std::string> lines;
  };
  std::vector<File> files_;
  std::vector<Diagnostic> list_;
  size_t num_errors_ = 0;
};

using piper::nearest;

}  // namespace piper::diag
