#include "compiler/strategy/value_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace piper::strategy {
namespace {

std::nullopt_t wrong_type(ReadContext& context, const Value& value, const std::string& what, const char* wanted,
                          const std::string& help = "") {
  auto error = context.diags.error("P0202", value.span);
  error << what << " must be " << wanted << ", not " << describe(value);
  if (!help.empty()) error.help(help);
  return std::nullopt;
}

}  // namespace

std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += "'" + words[i] + "'";
  }
  return text;
}

std::optional<int64_t> read_int(ReadContext& context, const Value& value, const std::string& what, int64_t min,
                                int64_t max) {
  int64_t number = value.integer;
  if (value.kind == Value::Kind::kString && value.quoted) {
    const char* end = value.text.data() + value.text.size();
    const auto [stop, error] = std::from_chars(value.text.data(), end, number);
    const bool is_int = error == std::errc() && stop == end;
    if (!is_int) return wrong_type(context, value, what, "a whole number");
    if (!context.bare_list) {
      return wrong_type(context, value, what, "a whole number", "write " + value.text + " without quotes");
    }
  } else if (value.kind != Value::Kind::kInt) {
    return wrong_type(context, value, what, "a whole number");
  }
  if (number < min || number > max) {
    auto error = context.diags.error("P0207", value.span);
    error << what << " must be ";
    if (max == std::numeric_limits<int64_t>::max()) {
      error << "at least " << min;
    } else {
      error << "between " << min << " and " << max;
    }
    error << ", not " << number;
    return std::nullopt;
  }
  return number;
}

std::optional<double> read_number(ReadContext& context, const Value& value, const std::string& what) {
  if (value.kind != Value::Kind::kInt && value.kind != Value::Kind::kFloat) {
    return wrong_type(context, value, what, "a number");
  }
  if (!std::isfinite(value.number)) {
    context.diags.error("P0207", value.span) << what << " must be finite";
    return std::nullopt;
  }
  return value.number;
}

void read_bounded(ReadContext& context, const Value* value, const std::string& what, Bounds bounds, double& out) {
  if (value == nullptr) return;
  const auto number = read_number(context, *value, what);
  if (!number) return;
  if (*number < bounds.min || *number >= bounds.below) {
    auto error = context.diags.error("P0207", value->span);
    error << what << " must be at least " << bounds.min;
    if (bounds.below < std::numeric_limits<double>::infinity()) error << " and less than " << bounds.below;
    error << ", not " << *number;
    return;
  }
  out = *number;
}

std::optional<bool> read_bool(ReadContext& context, const Value& value, const std::string& what) {
  if (value.kind != Value::Kind::kBool) return wrong_type(context, value, what, "true or false");
  return value.boolean;
}

std::optional<std::string> read_string(ReadContext& context, const Value& value, const std::string& what) {
  if (value.kind != Value::Kind::kString) {
    const bool scalar = value.kind != Value::Kind::kList && value.kind != Value::Kind::kMap && !value.text.empty();
    return wrong_type(context, value, what, "a string", scalar ? "put it in quotes: \"" + value.text + "\"" : "");
  }
  if (value.text.empty()) {
    context.diags.error("P0207", value.span) << what << " must not be empty";
    return std::nullopt;
  }
  return value.text;
}

std::optional<std::string> read_choice(ReadContext& context, const Value& value, const std::string& what,
                                       const std::vector<std::string>& choices) {
  auto text = read_string(context, value, what);
  if (!text) return std::nullopt;
  if (std::find(choices.begin(), choices.end(), *text) != choices.end()) return text;
  auto error = context.diags.error("P0207", value.span);
  error << what << " must be " << one_of(choices) << ", not '" << *text << "'";
  const std::string near = diag::nearest(*text, choices);
  if (!near.empty()) error.help("did you mean '" + near + "'?");
  return std::nullopt;
}

std::vector<std::string> read_strings(ReadContext& context, const Value& value, const std::string& what) {
  std::vector<std::string> texts;
  if (value.kind != Value::Kind::kList) {
    wrong_type(context, value, what, "a list of strings",
               value.kind == Value::Kind::kString ? "write [\"" + value.text + "\"]" : "");
    return texts;
  }
  for (const Value& item : value.items) {
    if (auto text = read_string(context, item, "an entry of " + what)) texts.push_back(std::move(*text));
  }
  return texts;
}

std::vector<diag::Span> item_spans(const Value& value) {
  std::vector<diag::Span> spans;
  for (const Value& item : value.items) spans.push_back(item.span);
  return spans;
}

MapReader::MapReader(ReadContext& context, const Value& value, std::string what)
    : context_(context), value_(value), what_(std::move(what)), ok_(value.kind == Value::Kind::kMap) {
  if (!ok_) wrong_type(context_, value_, what_, "a mapping");
}

const Value* MapReader::get(std::string_view key) {
  known_.emplace_back(key);
  const Value* value = ok_ ? value_.find(key) : nullptr;
  if (value != nullptr && value->kind == Value::Kind::kNull) {
    if (context_.bare_list) return nullptr;
    context_.diags.error("P0202", key_span(key)) << "'" << key << "' has no value";
    return nullptr;
  }
  return value;
}

const Value* MapReader::require(std::string_view key, std::string help) {
  const Value* value = get(key);
  const Value* given = ok_ ? value_.find(key) : nullptr;
  if (ok_ && (given == nullptr || (value == nullptr && context_.bare_list)))
    needs({key}, what_ + " needs '" + std::string(key) + "'", std::move(help));
  return value;
}

void MapReader::needs(const std::vector<std::string_view>& keys, std::string message, std::string help) {
  missing_.push_back({{keys.begin(), keys.end()}, std::move(message), std::move(help)});
}

bool MapReader::is_misspelt(const Missing& missing) const {
  return std::any_of(value_.keys.begin(), value_.keys.end(), [&](const Key& key) {
    if (std::find(known_.begin(), known_.end(), key.text) != known_.end()) return false;
    return missing.keys.size() > 1 || diag::nearest(key.text, known_) == missing.keys[0];
  });
}

size_t MapReader::alternatives(const std::vector<std::string_view>& keys) {
  size_t given = 0;
  const Key* first = nullptr;
  for (const Key& key : value_.keys) {
    if (std::find(keys.begin(), keys.end(), key.text) == keys.end()) continue;
    if (++given == 1) {
      first = &key;
      continue;
    }
    context_.diags.error("P0208", key.span).note("'" + first->text + "' is here", first->span).help("keep one of them")
        << "'" << key.text << "' and '" << first->text << "' exclude each other in " << what_;
  }
  return given;
}

void MapReader::finish() {
  if (!ok_) return;
  for (const Missing& missing : missing_)
    if (!is_misspelt(missing)) context_.diags.error("P0206", value_.span).help(missing.help) << missing.message;
  for (const Key& key : value_.keys) {
    if (std::find(known_.begin(), known_.end(), key.text) != known_.end()) continue;
    auto error = context_.diags.error("P0201", key.span);
    error << "unknown key '" << key.text << "' in " << what_;
    std::vector<std::string> sorted = known_;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::string list;
    for (const std::string& word : sorted) list += (list.empty() ? "" : ", ") + word;
    error.note("the keys of " + what_ + " are " + list);
    const std::string near = diag::nearest(key.text, known_);
    if (!near.empty()) error.help("did you mean '" + near + "'?");
  }
}

const diag::Span& MapReader::key_span(std::string_view key) const {
  for (const Key& k : value_.keys) {
    if (k.text == key) return k.span;
  }
  return value_.span;
}

}  // namespace piper::strategy
