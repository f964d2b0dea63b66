// Typed access to a Value tree for the loader's parts: every misfit is a diagnostic with a caret,
// and reading goes on, so that one run shows all mistakes of a file. MapReader knows which keys
// were asked for: what is left over is unknown, with a suggestion.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/strategy/value.h"

namespace piper::strategy {

struct Mesh;

// What all parts of the loader share.
struct ReadContext {
  diag::Diagnostics& diags;
  bool bare_list = false;      // quoted integers are integers, and null is a key that is not given
  const Mesh* mesh = nullptr;  // the axes that device lists may name (mesh.h)
  bool mesh_was_read = false;  // some device list does
  bool mesh_is_wrong = false;  // there is one, with an error
};

// A word list as messages show it: "'a', 'b' or 'c'".
std::string one_of(const std::vector<std::string>& words);

// Each returns nothing after having reported P0202 (type) or P0207 (range). `what` names the value
// in the user's words, e.g. "'batch'".
std::optional<int64_t> read_int(ReadContext& context, const Value& value, const std::string& what, int64_t min,
                                int64_t max);
std::optional<double> read_number(ReadContext& context, const Value& value, const std::string& what);
// At least `min`, and less than `below`.
struct Bounds {
  double min = 0;
  double below = std::numeric_limits<double>::infinity();
};
// Fills `out` where there is a value, and it is a number inside.
void read_bounded(ReadContext& context, const Value* value, const std::string& what, Bounds bounds, double& out);
std::optional<bool> read_bool(ReadContext& context, const Value& value, const std::string& what);
std::optional<std::string> read_string(ReadContext& context, const Value& value, const std::string& what);
std::optional<std::string> read_choice(ReadContext& context, const Value& value, const std::string& what,
                                       const std::vector<std::string>& choices);
// A list of non-empty strings.
std::vector<std::string> read_strings(ReadContext& context, const Value& value, const std::string& what);
// Spans of a list's entries, for messages about one of them.
std::vector<diag::Span> item_spans(const Value& value);

class MapReader {
 public:
  // `what`: "the optimizer", "a 'place' directive", ... A value that is no mapping is reported.
  MapReader(ReadContext& context, const Value& value, std::string what);
  bool ok() const { return ok_; }
  // The value of a key or null; a key whose value is empty counts as given, null is reported (P0202), except in a bare
  // list.
  const Value* get(std::string_view key);
  // `help`: a line to write where it is missing, which finish() reports (P0206).
  const Value* require(std::string_view key, std::string help);
  // None of these keys is there: finish() reports it (P0206), except where one of them is misspelt, which is reported
  // already.
  void needs(const std::vector<std::string_view>& keys, std::string message, std::string help);
  // Reports all but the first given key of a set of alternatives (P0208); returns how many are given.
  size_t alternatives(const std::vector<std::string_view>& keys);
  // Reports keys that nobody asked for (P0201) and those that are missing.
  void finish();
  const diag::Span& key_span(std::string_view key) const;

 private:
  ReadContext& context_;
  const Value& value_;
  std::string what_;
  bool ok_;
  struct Missing {
    std::vector<std::string> keys;
    std::string message, help;
  };
  bool is_misspelt(const Missing& missing) const;

  std::vector<std::string> known_;
  std::vector<Missing> missing_;
};

}  // namespace piper::strategy
