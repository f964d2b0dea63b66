// Access to a loaded directive's arguments by name; used by the typed readers in
// compiler/directives and by whoever prints directives.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"

namespace piper::strategy {

// Position of an argument in the spec's list; PIPER_CHECKs that it exists.
size_t arg_index(const DirectiveSpec& spec, std::string_view name);

// The argument's value, or null where the user gave none.
template <class T>
const T* find_arg(const Directive& directive, std::string_view name) {
  return std::get_if<T>(&directive.args[arg_index(*directive.spec, name)]);
}
// The default of an argument that has one, from its text. T: std::string, bool, int64_t or double.
template <class T>
T default_of(const DirectiveSpec& spec, std::string_view name);
template <class T>
T arg_or_default(const Directive& directive, std::string_view name) {
  const T* value = find_arg<T>(directive, name);
  return value == nullptr ? default_of<T>(*directive.spec, name) : *value;
}
// P0206 as a failure where a required argument is missing (a directive not made by the loader).
template <class T>
Result<T> required_arg(const Directive& directive, std::string_view name) {
  const T* value = find_arg<T>(directive, name);
  if (value != nullptr) return *value;
  return Status::failure("P0206", "'" + std::string(directive.spec->name) + "' needs '" + std::string(name) + "'");
}
Span arg_span(const Directive& directive, std::string_view name);

// A directive as one line of YAML: "{op: place, filter: {PP: 0}, devices: [0, 1]}".
std::string to_string(const Directive& directive);
std::string to_string(const Devices& devices);
std::string to_string(const std::vector<int32_t>& ranks);  // "[0, 1]"

}  // namespace piper::strategy
