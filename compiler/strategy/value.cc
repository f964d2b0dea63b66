#include "compiler/strategy/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace piper::strategy {
namespace {

bool is_digits(std::string_view s) {
  for (char c : s) {
    if (c < '0' || c > '9') return false;
  }
  return !s.empty();
}

bool parse_integer(std::string_view s, int64_t& out) {
  const bool negative = !s.empty() && s[0] == '-';
  std::string_view digits = s;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  int base = 10;
  if (s.size() > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'o')) {
    base = s[1] == 'x' ? 16 : 8;
    digits = s.substr(2);
    if (digits[0] == '-' || digits[0] == '+') return false;
  } else if (!is_digits(digits)) {
    return false;
  }
  const std::string number = (negative ? "-" : "") + std::string(digits);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), out, base);
  return error == std::errc() && end == number.data() + number.size();
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool has_float_form(std::string_view s) {
  size_t i = 0;
  if (i < s.size() && (s[i] == '-' || s[i] == '+')) ++i;
  size_t whole = 0, fraction = 0;
  while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i, ++whole;
  if (i < s.size() && s[i] == '.') {
    ++i;
    while (i < s.size() && s[i] >= '0' && s[i] <= '9') ++i, ++fraction;
  }
  if (whole + fraction == 0) return false;
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    ++i;
    if (i < s.size() && (s[i] == '-' || s[i] == '+')) ++i;
    if (!is_digits(s.substr(i))) return false;
    i = s.size();
  }
  return i == s.size();
}

bool parse_float(std::string_view s, double& out) {
  std::string_view rest = s;
  const bool negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
  if (rest == ".inf" || rest == ".Inf" || rest == ".INF") {
    out = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (s == ".nan" || s == ".NaN" || s == ".NAN") {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (!has_float_form(s)) return false;
  std::string number(rest);  // from_chars knows no leading '+'
  if (number[0] == '.') number.insert(0, "0");
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), out);
  if (error == std::errc::result_out_of_range) {
    out = number.find("e-") != std::string::npos || number.find("E-") != std::string::npos
              ? 0.0
              : std::numeric_limits<double>::infinity();
  }
  if (negative) out = -out;
  return true;
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

Value* Value::find(std::string_view key) {
  return const_cast<Value*>(static_cast<const Value*>(this)->find(key));  // both overloads, one body
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull: return "nothing";
    case Value::Kind::kBool: return value.boolean ? "true" : "false";
    case Value::Kind::kInt: return "the whole number " + value.text;
    case Value::Kind::kFloat: return "the number " + value.text;
    case Value::Kind::kString: {
      const std::string shown = value.text.size() > 40 ? value.text.substr(0, 40) + "..." : value.text;
      return "the string '" + shown + "'";
    }
    case Value::Kind::kList: return "a list";
    case Value::Kind::kMap: return "a mapping";
  }
  return "";
}

void resolve_scalar(Value& value) {
  value.kind = Value::Kind::kString;
  if (value.quoted) return;
  const std::string& s = value.text;
  if (s.empty() || s == "~" || s == "null" || s == "Null" || s == "NULL") {
    value.kind = Value::Kind::kNull;
  } else if (s == "true" || s == "True" || s == "TRUE" || s == "false" || s == "False" || s == "FALSE") {
    value.kind = Value::Kind::kBool;
    value.boolean = s[0] == 't' || s[0] == 'T';
  } else if (parse_integer(s, value.integer)) {
    value.kind = Value::Kind::kInt;
    value.number = static_cast<double>(value.integer);
  } else if (parse_float(s, value.number)) {
    value.kind = Value::Kind::kFloat;
  }
}

std::string as_yaml(const std::string& text) {
  Value value;
  value.text = text;
  resolve_scalar(value);
  const bool plain = value.kind == Value::Kind::kString && !text.empty() && text[0] != '-' && text[0] != '.' &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                              c == '.' || c == '-';
                     });
  if (plain) return text;
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += std::string("\\x") + "0123456789abcdef"[c >> 4] + "0123456789abcdef"[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string flow_text(const Value& value) {
  if (value.kind == Value::Kind::kNull) return "null";
  if (value.kind == Value::Kind::kString) return as_yaml(value.text);
  const bool map = value.kind == Value::Kind::kMap;
  if (!map && value.kind != Value::Kind::kList) return value.text;
  std::string text;
  for (size_t i = 0; i < value.items.size(); ++i)
    text += (i == 0 ? "" : ", ") + (map ? as_yaml(value.keys[i].text) + ": " : "") + flow_text(value.items[i]);
  return map ? "{" + text + "}" : "[" + text + "]";
}

}  // namespace piper::strategy
