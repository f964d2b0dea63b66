#include "compiler/strategy/directive_args.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "compiler/strategy/filter.h"
#include "compiler/strategy/value.h"

namespace piper::strategy {
namespace {

std::string print_arg(const ArgValue& value) {
  struct Printer {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(const Filter& filter) const { return to_string(filter); }
    std::string operator()(const FilterGroups& groups) const {
      std::string text = "[";
      for (size_t g = 0; g < groups.size(); ++g) {
        const bool nested = groups[g].front().in_sequence;
        text += std::string(g > 0 ? ", [" : "[") + (nested ? "[" : "");
        for (size_t i = 0; i < groups[g].size(); ++i) text += (i > 0 ? ", " : "") + to_string(groups[g][i]);
        text += nested ? "]]" : "]";
      }
      return text + "]";
    }
    std::string operator()(const Devices& devices) const { return to_string(devices); }
    std::string operator()(const std::vector<Devices>& groups) const {
      if (groups.size() == 1) return to_string(groups[0]);
      std::string text = "[";
      for (size_t g = 0; g < groups.size(); ++g) text += (g > 0 ? ", " : "") + to_string(groups[g]);
      return text + "]";
    }
    std::string operator()(const RankGroups& over) const {
      std::string text = "[";
      for (const Devices& group : over.groups) text += (text.size() > 1 ? ", " : "") + to_string(group);
      return text + "]";
    }
    std::string operator()(const std::string& text) const { return as_yaml(text); }
    std::string operator()(int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(const Capacity& capacity) const {
      return fmt::format("{{factor: {}, overflow: {}}}", capacity.factor, capacity.overflow);
    }
    std::string operator()(const Globs& globs) const {
      std::string text = "[";
      for (const std::string& glob : globs.globs) text += (text.size() > 1 ? ", " : "") + as_yaml(glob);
      return text + "]";
    }
  };
  return std::visit(Printer{}, value);
}

std::string_view default_text(const DirectiveSpec& spec, std::string_view name) {
  const std::string_view text = spec.args[arg_index(spec, name)].default_text;
  PIPER_CHECK(!text.empty(), "'", name, "' of '", spec.name, "' has no default");
  return text;
}
template <class T>
T default_number(const DirectiveSpec& spec, std::string_view name) {
  const std::string_view text = default_text(spec, name);
  T number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  PIPER_CHECK(read.ec == std::errc() && read.ptr == text.data() + text.size(), "the default of '", name, "': ", text);
  return number;
}

}  // namespace

size_t arg_index(const DirectiveSpec& spec, std::string_view name) {
  size_t index = 0;
  while (index < spec.args.size() && spec.args[index].name != name) ++index;
  PIPER_CHECK(index < spec.args.size(), "directive '", spec.name, "' has no argument '", name, "'");
  return index;
}

template <>
std::string default_of(const DirectiveSpec& spec, std::string_view name) {
  return std::string(default_text(spec, name));
}
template <>
bool default_of(const DirectiveSpec& spec, std::string_view name) {
  return default_text(spec, name) == "true";
}
template <>
int64_t default_of(const DirectiveSpec& spec, std::string_view name) {
  return default_number<int64_t>(spec, name);
}
template <>
double default_of(const DirectiveSpec& spec, std::string_view name) {
  return default_number<double>(spec, name);
}

Span arg_span(const Directive& directive, std::string_view name) {
  return directive.arg_spans[arg_index(*directive.spec, name)];
}

std::string to_string(const Devices& devices) { return to_string(devices.ranks); }

std::string to_string(const std::vector<int32_t>& ranks) {
  std::string text = "[";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text + "]";
}

std::string to_string(const Directive& directive) {
  std::string text = "{op: " + std::string(directive.spec->name);
  for (size_t i = 0; i < directive.args.size(); ++i) {
    if (std::holds_alternative<std::monostate>(directive.args[i])) continue;
    text += ", " + std::string(directive.spec->args[i].name) + ": " + print_arg(directive.args[i]);
  }
  return text + "}";
}

}  // namespace piper::strategy
