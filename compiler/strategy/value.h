// A strategy file as a tree of values, every value and key with its span. Made by read_yaml from
// YAML or JSON text, changed by `--set` overrides, read by the loader. Scalars are already
// resolved by the YAML 1.2 core schema. It knows no key of the language.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "schemas/base/status.h"

namespace piper::strategy {

struct Key {
  std::string text;
  diag::Span span;
};
struct Value {
  enum class Kind : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kMap } kind = Kind::kNull;
  bool quoted = false;  // kString only: "1" is a string, 1 a number
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;         // kInt too
  std::string text;          // of any scalar, as written
  std::vector<Key> keys;     // kMap: keys[i] belongs to items[i], in file order
  std::vector<Value> items;  // kList, kMap
  diag::Span span;
  // The value of a key, or null.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
};
// "a number", "the list", ... as messages name it.
std::string describe(const Value& value);

// Resolves a plain scalar's kind by the core schema; a quoted one stays a string.
void resolve_scalar(Value& value);
// A string as a YAML scalar: plain where it reads back as that string, else in double quotes.
std::string as_yaml(const std::string& text);
// A value in one line, as a strategy has it.
std::string flow_text(const Value& value);

// Parses one YAML document or JSON text. `file` is the registered file for spans; columns of the
// first line are shifted by `column_shift`. Errors: P0102 syntax, P0104 duplicate keys, P0105 tags,
// nesting deeper than 64 or more than a million values after expanding aliases.
Result<Value> read_yaml(uint32_t file, const std::string& text, uint32_t column_shift, diag::Diagnostics& diags);

// Applies one "KEY=VALUE" of --set: dotted path through mappings and list positions; missing
// mappings on the way are made. Error P0103.
Status apply_override(Value& root, const std::string& text, diag::Diagnostics& diags);

}  // namespace piper::strategy
