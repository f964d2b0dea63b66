// Text of attributes, numbers and value names.
#include "compiler/ir/attrs_text.h"

#include <charconv>
#include <cmath>
#include <sstream>

namespace piper::ir {
namespace {

struct AttrPrinter {
  std::ostringstream& out;
  const Graph* graph;
  bool first = true;

  void key(const char* name) {
    if (!first) out << ", ";
    first = false;
    out << name << "=";
  }
  void operator()(const char* name, int64_t v) {
    key(name);
    out << v;
  }
  void operator()(const char* name, double v) {
    key(name);
    out << number_text(v);
  }
  void operator()(const char* name, bool v) {
    key(name);
    out << (v ? "true" : "false");
  }
  void operator()(const char* name, const std::string& v) {
    key(name);
    out << string_literal(v);
  }
  void operator()(const char* name, DType v) {
    key(name);
    out << dtype_name(v);
  }
  void operator()(const char* name, const std::vector<int64_t>& v) {
    key(name);
    out << list_text(v);
  }
  void operator()(const char* name, ValueId v) {
    key(name);
    if (graph && v.valid()) out << value_text(graph->value(v).name);
    else if (v.valid()) out << "%" << v.index;
    else out << "none";
  }
};

}  // namespace

std::string to_string(const Attrs& attrs, const Graph* graph) {
  std::ostringstream out;
  AttrPrinter printer{out, graph};
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, printer); }, attrs);
  return out.str();
}

bool equal(const Attrs& a, const Attrs& b) {
  return a.index() == b.index() && to_string(a, nullptr) == to_string(b, nullptr);
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string value_text(std::string_view name) {
  bool plain = !name.empty();
  for (char c : name)
    plain = plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      c == '.' || c == '/' || c == '-');
  return plain ? "%" + std::string(name) : "%" + string_literal(name);
}

std::string string_literal(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + '"';
}

std::string list_text(const std::vector<int64_t>& numbers) {
  return list_text(numbers, [](int64_t number) { return std::to_string(number); });
}

}  // namespace piper::ir
