#include "compiler/frontend/aten/fx_text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>

namespace piper::frontend::aten {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

class FxParser {
 public:
  explicit FxParser(std::string_view text) : text_(text) {}

  Result<FxCall> call() {
    FxCall out;
    if (!take("%")) return fail("a node name");
    out.name = word(" :=");
    const size_t at = text_.find("call_function[target=", pos_);
    if (at == std::string_view::npos) return fail("'call_function[target='");
    pos_ = at + std::string_view("call_function[target=").size();
    out.target = word("]");
    out.target = plain_target(std::move(out.target));
    if (!take("]") || !take("(") || !take("args") || !take("=") || !take("(")) return fail("'(args = ('");
    const bool equation = out.target.rfind("aten.einsum", 0) == 0;
    while (!take(")")) {
      if (equation && out.args.empty()) {
        const size_t end = text_.find(", [", pos_);
        if (end == std::string_view::npos) return fail("the operands of the equation");
        out.args.push_back(Item::of_text(std::string(text_.substr(pos_, end - pos_))));
        pos_ = end;
      } else {
        PIPER_ASSIGN(Item arg, item());
        out.args.push_back(std::move(arg));
      }
      if (!take(",") && peek() != ')') return fail("',' or ')'");
    }
    if (!take(",") || !take("kwargs") || !take("=") || !take("{")) return fail("', kwargs = {'");
    while (!take("}")) {
      skip_spaces();
      std::string key = word(":");
      if (!take(":")) return fail("':' after a keyword");
      PIPER_ASSIGN(Item arg, item());
      out.kwargs.emplace_back(std::move(key), std::move(arg));
      if (!take(",") && peek() != '}') return fail("',' or '}'");
    }
    return out;
  }

  Result<Item> literal() {
    PIPER_ASSIGN(Item x, item());
    if (skip_spaces(); pos_ != text_.size()) return fail("the end of the literal");
    return x;
  }

 private:
  void skip_spaces() {
    while (pos_ < text_.size() && is_space(text_[pos_])) ++pos_;
  }
  char peek() {
    skip_spaces();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool take(std::string_view what) {
    skip_spaces();
    if (text_.substr(pos_, what.size()) != what) return false;
    pos_ += what.size();
    return true;
  }
  std::string word(std::string_view stops) {
    const size_t start = pos_;
    while (pos_ < text_.size() && stops.find(text_[pos_]) == std::string_view::npos) ++pos_;
    return std::string(text_.substr(start, pos_ - start));
  }
  Status fail(std::string_view wanted) const {
    return Status::failure("P0304", "FX text: expected " + std::string(wanted) + " at '" +
                                        std::string(text_.substr(std::min(pos_, text_.size()), 40)) + "'");
  }

  Result<Item> item() {
    if (++depth_ > kMaxDepth) return fail("fewer nested lists");
    Result<Item> out = item_inside();
    --depth_;
    return out;
  }
  Result<Item> item_inside() {
    const char c = peek();
    if (c == '%') {
      ++pos_;
      return Item::of_ref(word(",)]} "));
    }
    if (c == '[' || c == '(') {
      ++pos_;
      const char* close = c == '[' ? "]" : ")";
      std::vector<Item> list;
      while (!take(close)) {
        PIPER_ASSIGN(Item x, item());
        list.push_back(std::move(x));
        if (!take(",") && peek() != *close) return fail("',' or the end of the list");
      }
      return Item::of_list(std::move(list));
    }
    if (c == '\0') return fail("an argument");
    return bare(bare_word());
  }

  // A word up to the comma or bracket that ends the argument; brackets inside it nest
  // (`device(type='cpu')`).
  std::string bare_word() {
    const size_t start = pos_;
    int open = 0;
    for (; pos_ < text_.size(); ++pos_) {
      const char c = text_[pos_];
      if (c == '(' || c == '[' || c == '{') ++open;
      if (c == ')' || c == ']' || c == '}') {
        if (open == 0) break;
        --open;
      }
      if (c == ',' && open == 0) break;
    }
    size_t end = pos_;
    while (end > start && is_space(text_[end - 1])) --end;
    return std::string(text_.substr(start, end - start));
  }

  static Item bare(std::string word) {
    if (word == "None") return Item::none();
    if (word == "True") return Item::of_bool(true);
    if (word == "False") return Item::of_bool(false);
    if (word == "inf") return Item::of_float(std::numeric_limits<double>::infinity());
    if (word == "-inf") return Item::of_float(-std::numeric_limits<double>::infinity());
    if (word == "nan") return Item::of_float(std::numeric_limits<double>::quiet_NaN());
    const bool digits = !word.empty() && word.find_first_not_of("+-.0123456789eE") == std::string::npos &&
                        word.find_first_of("0123456789") != std::string::npos;
    if (digits) {
      char* end = nullptr;
      errno = 0;
      if (word.find_first_of(".eE") == std::string::npos) {
        const long long v = std::strtoll(word.c_str(), &end, 10);
        if (*end == '\0' && errno == 0) return Item::of_int(v);
      }
      const double v = std::strtod(word.c_str(), &end);
      if (*end == '\0') return Item::of_float(v);
    }
    return Item::of_text(std::move(word));
  }

  static constexpr int kMaxDepth = 32;
  std::string_view text_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string plain_target(std::string target) {
  for (std::string_view prefix : {"torch.ops.", "torch._ops.", "_operator.", "torch."})
    if (target.rfind(prefix, 0) == 0) return (prefix == "_operator." ? "operator." : "") + target.substr(prefix.size());
  return target;
}

Result<FxCall> parse_fx_text(std::string_view text) { return FxParser(text).call(); }
Result<Item> parse_fx_literal(std::string_view text) { return FxParser(text).literal(); }

void collect_refs(const Item& item, std::vector<std::string>& names) {
  if (item.kind == Item::Kind::kRef) names.push_back(item.text);
  for (const Item& x : item.list) collect_refs(x, names);
}

}  // namespace piper::frontend::aten
