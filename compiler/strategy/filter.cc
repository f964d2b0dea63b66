#include "compiler/strategy/filter.h"

#include <algorithm>
#include <charconv>

namespace piper::strategy {
namespace {

constexpr int64_t kMaxIndex = 1 << 30;

bool add_index(ReadContext& context, const Value& value, const std::string& tag, FilterTerm& term) {
  auto malformed = [&](const std::string& help) {
    auto error = context.diags.error("P0209", value.span);
    error << "the value of '" << tag << "' must be an index, a list of indices, a range \"0..3\", \"*\" or \"-\", not "
          << describe(value);
    if (!help.empty()) error.help(help);
    return false;
  };
  std::pair<int64_t, int64_t> range;
  if (value.kind == Value::Kind::kInt) {
    range = {value.integer, value.integer};
  } else if (value.kind == Value::Kind::kString) {
    bool is_range = false;
    if (!parse_range(value.text, range, is_range)) return malformed("");
    if (!is_range && value.quoted && !context.bare_list) return malformed("write " + value.text + " without quotes");
  } else {
    return malformed("");
  }
  if (range.first < 0 || range.second > kMaxIndex || range.first > range.second) {
    context.diags.error("P0209", value.span)
        << "the indices of '" << tag << "' count from 0, and a range goes from the smaller to the larger; "
        << value.text << " does not";
    return false;
  }
  term.ranges.push_back(range);
  return true;
}

std::optional<Pass> pass_from_name(std::string_view name) {
  for (Pass pass : {Pass::kF, Pass::kB, Pass::kBI, Pass::kBW}) {
    if (pass_name(pass) == name) return pass;
  }
  return std::nullopt;
}

}  // namespace

std::string_view pass_name(Pass pass) {
  switch (pass) {
    case Pass::kF: return "F";
    case Pass::kB: return "B";
    case Pass::kBI: return "BI";
    case Pass::kBW: return "BW";
  }
  return "";
}

bool parse_range(std::string_view text, std::pair<int64_t, int64_t>& out, bool& is_range) {
  const size_t dots = text.find("..");
  is_range = dots != std::string_view::npos;
  auto number = [](std::string_view s, int64_t& value) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    return error == std::errc() && end == s.data() + s.size();
  };
  if (!is_range) {
    if (!number(text, out.first)) return false;
    out.second = out.first;
    return true;
  }
  return number(text.substr(0, dots), out.first) && number(text.substr(dots + 2), out.second);
}

bool FilterTerm::matches(int64_t index) const {
  if (any) return true;
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const auto& range) { return range.first <= index && index <= range.second; });
}

std::optional<Filter> read_filter(ReadContext& context, const Value& value,
                                  const std::vector<std::string_view>& forbidden, const std::string& what) {
  if (value.kind != Value::Kind::kMap) {
    context.diags.error("P0202", value.span).help("for example {PP: 0}; {} matches everything")
        << what << " must be a mapping from tags to indices, not " << describe(value);
    return std::nullopt;
  }
  Filter filter;
  filter.span = value.span;
  bool good = true;
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const Key& key = value.keys[i];
    const Value& item = value.items[i];
    if (key.text.empty()) {
      context.diags.error("P0209", key.span) << "a tag needs a name";
      good = false;
      continue;
    }
    if (std::find(forbidden.begin(), forbidden.end(), key.text) != forbidden.end()) {
      context.diags.error("P0218", key.span).help("drop '" + key.text + "' from the filter")
          << what << " may not name '" << key.text << "'";
      good = false;
      continue;
    }
    if (key.text == "PASS") {
      const auto pass =
          item.kind == Value::Kind::kString ? pass_from_name(item.text) : std::optional<Pass>(std::nullopt);
      if (!pass) {
        context.diags.error("P0209", item.span) << "PASS must be F, B, BI or BW, not " << describe(item);
        good = false;
      }
      filter.pass = pass;
      continue;
    }
    FilterTerm term;
    term.tag = key.text;
    term.tag_span = key.span;
    term.span = item.span;
    if (item.kind == Value::Kind::kString && item.text == "*") {
      term.any = true;
    } else if (item.kind == Value::Kind::kString && item.text == "-") {
      term.absent = true;
    } else if (item.kind == Value::Kind::kList) {
      if (item.items.empty()) {
        context.diags.error("P0209", item.span) << "an empty list of indices matches nothing";
        good = false;
      }
      for (const Value& entry : item.items) good = add_index(context, entry, key.text, term) && good;
    } else {
      good = add_index(context, item, key.text, term) && good;
    }
    filter.terms.push_back(std::move(term));
  }
  if (!good) return std::nullopt;
  return filter;
}

std::string to_string(const Filter& filter) {
  std::string text = "{";
  for (const FilterTerm& term : filter.terms) {
    if (text.size() > 1) text += ", ";
    text += as_yaml(term.tag) + ": ";
    if (term.any || term.absent) {
      text += term.any ? "\"*\"" : "\"-\"";
      continue;
    }
    auto range_text = [](const std::pair<int64_t, int64_t>& range) {
      if (range.first == range.second) return std::to_string(range.first);
      return "\"" + std::to_string(range.first) + ".." + std::to_string(range.second) + "\"";
    };
    if (term.ranges.size() == 1) {
      text += range_text(term.ranges[0]);
      continue;
    }
    text += "[";
    for (size_t i = 0; i < term.ranges.size(); ++i) text += (i > 0 ? ", " : "") + range_text(term.ranges[i]);
    text += "]";
  }
  if (filter.pass) text += (text.size() > 1 ? ", PASS: " : "PASS: ") + std::string(pass_name(*filter.pass));
  return text + "}";
}

}  // namespace piper::strategy
