#include "compiler/frontend/aten/table.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/aten/fx_text.h"

namespace piper::frontend::aten {
namespace {

// Reads `aten.linear.default(Tensor input, Tensor weight, Tensor? bias=None)`.
Schema parse_schema(std::string_view text) {
  Schema out;
  const size_t open = text.find('(');
  PIPER_CHECK(open != std::string_view::npos && text.back() == ')', "schema ", std::string(text));
  out.target = std::string(text.substr(0, open));
  size_t at = open + 1;
  while (at < text.size() - 1) {
    size_t end = at;
    for (int nested = 0; end < text.size() - 1 && (nested > 0 || text[end] != ','); ++end)
      nested += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
    std::string_view field = text.substr(at, end - at);
    while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
    Parameter p;
    const size_t space = field.find(' ');
    PIPER_CHECK(space != std::string_view::npos, "schema ", std::string(text));
    p.type = std::string(field.substr(0, space));
    if (const size_t note = p.type.find('('); note != std::string::npos) {
      const size_t close = p.type.find(')', note);
      PIPER_CHECK(close != std::string::npos, "schema ", std::string(text));
      const std::string sharing = p.type.substr(note, close + 1 - note);
      PIPER_CHECK(sharing == "(a)" || sharing == "(a?)", "sharing ", sharing, " in schema ", std::string(text));
      p.sharing = sharing == "(a)" ? Sharing::kView : Sharing::kMaybe;
      p.type.erase(note, close + 1 - note);
    }
    const std::string_view rest = field.substr(space + 1);
    const size_t equals = rest.find('=');
    p.name = std::string(rest.substr(0, equals));
    if (equals != std::string_view::npos) {
      Result<Item> value = parse_fx_literal(rest.substr(equals + 1));
      PIPER_CHECK(value.ok(), "default in schema ", std::string(text));
      p.has_default = true;
      p.fallback = std::move(value).value();
    }
    out.parameters.push_back(std::move(p));
    at = end + 1;
  }
  return out;
}

// A row of the table; its schema is read when the first call asks for it, since a model calls few of them.
class LazyRow {
 public:
  LazyRow(std::string_view text, OpKind kind, Handler handler) : text_(text), kind_(kind), handler_(handler) {}
  const TableRow& get() {
    std::call_once(read_, [this] { row_ = {parse_schema(text_), kind_, handler_}; });
    return row_;
  }

 private:
  std::string_view text_;
  OpKind kind_;
  Handler handler_;
  std::once_flag read_;
  TableRow row_;
};
using Table = std::map<std::string_view, LazyRow>;  // by target

Table make_table() {
  Table table;
  const auto add = [&](Handler handler, OpKind kind, std::string_view text) {
    PIPER_CHECK(table.try_emplace(text.substr(0, text.find('(')), text, kind, handler).second, "two rows for ",
                std::string(text));
  };
#define PIPER_ATEN(handler, kind, schema) add(&handler, OpKind::kind, schema);
#include "compiler/frontend/aten/call_table.def"
#undef PIPER_ATEN
  return table;
}

Table& table() {
  static Table rows = make_table();
  return rows;
}

// "aten.linear.default" -> "aten.linear."
std::string_view operator_prefix(std::string_view target) {
  const size_t dot = target.rfind('.');
  return dot == std::string_view::npos ? target : target.substr(0, dot + 1);
}

// "aten.linear.default" -> "linear": the rest is alike in all names.
std::string operator_name(std::string_view target) {
  const size_t first = target.find('.'), last = target.rfind('.');
  return std::string(first == last ? target : target.substr(first + 1, last - first - 1));
}

bool is_placement(const std::string& name) {
  for (const char* x : {"device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "generator"})
    if (name == x) return true;
  return false;
}

}  // namespace

const TableRow* find_row(const std::string& target) {
  const auto found = table().find(target);
  return found == table().end() ? nullptr : &found->second.get();
}

const TableRow* find_operator(const std::string& target) {
  if (const TableRow* row = find_row(target)) return row;
  const std::string_view prefix = operator_prefix(target);
  const auto found = table().lower_bound(prefix);
  return found == table().end() || !found->first.starts_with(prefix) ? nullptr : &found->second.get();
}

std::vector<std::string> resembling_targets(const std::string& target) {
  std::vector<std::string> overloads, names;
  const std::string_view prefix = operator_prefix(target);
  for (const auto& [name, row] : table()) {
    names.push_back(operator_name(name));
    if (name.starts_with(prefix)) overloads.emplace_back(name);
  }
  if (!overloads.empty()) return overloads;
  const std::string near = diag::nearest(operator_name(target), names);
  if (near.empty()) return {};
  std::vector<std::string> resembling;
  for (const auto& [name, row] : table())
    if (operator_name(name) == near) resembling.emplace_back(name);
  return resembling;
}

Result<std::vector<Item>> bind_arguments(const Schema& schema, std::vector<Item> args,
                                         std::vector<std::pair<std::string, Item>> kwargs) {
  const std::vector<Parameter>& parameters = schema.parameters;
  std::vector<Item> bound(parameters.size());
  std::vector<bool> given(parameters.size(), false);
  if (args.size() > parameters.size())
    return Status::failure("P0305", schema.target + " was called with " + std::to_string(args.size()) +
                                        " arguments; piper knows " + std::to_string(parameters.size()));
  for (size_t i = 0; i < args.size(); ++i) {
    bound[i] = std::move(args[i]);
    given[i] = true;
  }
  for (auto& argument : kwargs) {
    const std::string& name = argument.first;
    Item& value = argument.second;
    const auto found =
        std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
    if (found == parameters.end()) {
      if (is_placement(name) || value.is_none()) continue;
      return Status::failure("P0305", schema.target + " was called with '" + name + "', which piper does not know");
    }
    const size_t i = static_cast<size_t>(found - parameters.begin());
    bound[i] = std::move(value);
    given[i] = true;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i]) continue;
    if (!parameters[i].has_default)
      return Status::failure("P0305", schema.target + " was called without '" + parameters[i].name + "'");
    bound[i] = parameters[i].fallback;
  }
  return bound;
}

}  // namespace piper::frontend::aten
