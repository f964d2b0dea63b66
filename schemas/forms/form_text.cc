#include "schemas/forms/form_text.h"

#include <cctype>
#include <charconv>

namespace piper::form {
namespace {

using Kind = FormNode::Kind;

class Printer {
 public:
  explicit Printer(const std::vector<NamedAxis>& axes) : axes_(axes) {}

  std::string predicate(const Form& p) const {
    if (is_either(p)) {
      std::string text;
      for (const Form& part : p->operands[0]->operands)
        text += (text.empty() ? "" : " | ") + in_parentheses(negation(part), false);
      return text;
    }
    if (p->kind != Kind::kAll) return part_of_all(p);
    std::string text;
    for (const Form& part : p->operands) text += (text.empty() ? "" : " & ") + part_of_all(part);
    return text;
  }
  std::string sum(const Form& x) const {
    if (x->kind != Kind::kSum) return term(x);
    std::string text;
    const auto add = [&](bool negative, const std::string& part) {
      if (text.empty()) text = (negative ? "-" : "") + part;
      else text += (negative ? " - " : " + ") + part;
    };
    for (const FormNode::Term& t : x->terms) {
      const bool negative = t.factor < 0;
      const uint64_t size = negative ? -static_cast<uint64_t>(t.factor) : static_cast<uint64_t>(t.factor);
      add(negative, (size == 1 ? "" : std::to_string(size) + "*") + term(t.form));
    }
    const bool negative = x->number < 0;
    if (x->number != 0 || x->terms.empty())
      add(negative, std::to_string(negative ? -static_cast<uint64_t>(x->number) : static_cast<uint64_t>(x->number)));
    return text;
  }

 private:
  // "Not all of the negations": one of the parts.
  static bool is_either(const Form& p) { return p->kind == Kind::kNot && p->operands[0]->kind == Kind::kAll; }
  std::string in_parentheses(const Form& p, bool always) const {
    return always || is_either(p) ? "(" + predicate(p) + ")" : predicate(p);
  }
  std::string part_of_all(const Form& p) const {
    switch (p->kind) {
      case Kind::kNotNegative: return sum(p->operands[0]) + " >= 0";
      case Kind::kIsZero: return sum(p->operands[0]) + " = 0";
      case Kind::kNot:
        if (is_either(p)) return in_parentheses(p, true);
        return "!" +
               (p->operands[0]->kind == Kind::kRead ? term(p->operands[0]) : "(" + predicate(p->operands[0]) + ")");
      default: return sum(p);
    }
  }
  std::string term(const Form& x) const {
    switch (x->kind) {
      case Kind::kAxis: return axes_.at(static_cast<size_t>(x->number)).name;
      case Kind::kRead:
        return (x->is_predicate() ? "t" : "r") + std::to_string(x->number) + "[" + sum(x->operands[0]) + "]";
      case Kind::kQuotient: {
        const Form& of = x->operands[0];
        const bool several = of->kind == Kind::kSum && of->terms.size() + (of->number != 0 ? 1 : 0) > 1;
        return "floor(" + (several ? "(" + sum(of) + ")" : sum(of)) + " / " + std::to_string(x->number) + ")";
      }
      case Kind::kSelect:
        return "if(" + predicate(x->operands[0]) + ", " + sum(x->operands[1]) + ", " + sum(x->operands[2]) + ")";
      case Kind::kSum: return sum(x);
      default: return "[" + predicate(x) + "]";
    }
  }

  const std::vector<NamedAxis>& axes_;
};

class Parser {
 public:
  Parser(std::string_view text, const std::vector<NamedAxis>& axes) : text_(text), axes_(axes) {}

  Result<Form> run() {
    Form x = either();
    if (x != nullptr && at_ != text_.size()) x = fail("the end");
    if (x == nullptr)
      return Status::failure("", "'" + std::string(text_) + "' is no form: " +
                                     (wanted_.empty() ? "its numbers leave 64 bits" : wanted_ + " is wanted") +
                                     " at character " + std::to_string(at_ + 1));
    return x;
  }

 private:
  static constexpr int kDeepest = 64;

  Form fail(const char* wanted) {
    if (wanted_.empty()) wanted_ = wanted;
    return nullptr;
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool want(std::string_view token) { return take(token) || (fail("another character"), false); }

  Form either() {
    if (++depth_ > kDeepest) return fail("less depth");
    std::vector<Form> parts{both()};
    while (parts.back() != nullptr && take("|")) parts.push_back(both());
    --depth_;
    if (parts.back() == nullptr) return nullptr;
    return parts.size() == 1 ? parts[0] : any(std::move(parts));
  }
  Form both() {
    std::vector<Form> parts{part()};
    while (parts.back() != nullptr && take("&")) parts.push_back(part());
    if (parts.back() == nullptr) return nullptr;
    return parts.size() == 1 ? parts[0] : all(std::move(parts));
  }
  Form part() {
    if (++depth_ > kDeepest) return fail("less depth");
    const Form made = undeep_part();
    --depth_;
    return made;
  }
  Form undeep_part() {
    if (take("!")) return negation(part());
    if (take("(")) {
      Form inner = either();
      return inner != nullptr && want(")") ? inner : nullptr;
    }
    const Form x = sum_of_terms();
    if (x == nullptr) return nullptr;
    if (take(">= 0")) return not_negative(x);
    if (take("= 0")) return is_zero(x);
    return x->is_predicate() ? x : fail("'>= 0' or '= 0'");
  }
  Form sum_of_terms() {
    if (++depth_ > kDeepest) return fail("less depth");
    std::vector<FormNode::Term> terms;
    bool negative = take("-");
    do {
      if (!add_term(negative, terms)) return nullptr;
      negative = false;
    } while (take("+") || (negative = take("-")));
    --depth_;
    return sum(0, std::move(terms));
  }
  bool add_term(bool negative, std::vector<FormNode::Term>& terms) {
    skip();
    int64_t factor = negative ? -1 : 1;
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      uint64_t size = 0;
      if (!digits(size)) return false;
      if (size > uint64_t{INT64_MAX} + (negative ? 1 : 0)) return fail("a smaller number") != nullptr;
      factor = static_cast<int64_t>(negative ? -size : size);
      if (!take("*")) {
        terms.push_back({1, number(factor)});
        return true;
      }
    }
    const Form x = term();
    if (x != nullptr) terms.push_back({factor, x});
    return x != nullptr;
  }
  bool digits(uint64_t& value) {
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return fail("a number") != nullptr;
    at_ = static_cast<size_t>(end - text_.data());
    return true;
  }
  Form term() {
    if (take("[")) {
      Form p = either();
      return p != nullptr && want("]") ? p : nullptr;
    }
    if (take("floor(")) {
      const bool several = take("(");
      const Form x = sum_of_terms();
      uint64_t divisor = 0;
      if (x == nullptr || (several && !want(")")) || !want("/")) return nullptr;
      skip();
      if (!digits(divisor) || !want(")")) return nullptr;
      if (divisor < 1 || divisor > uint64_t{INT64_MAX}) return fail("a divisor");
      return quotient(x, static_cast<int64_t>(divisor));
    }
    if (take("if(")) {
      const Form p = either();
      if (p == nullptr || !want(",")) return nullptr;
      const Form then = sum_of_terms();
      if (then == nullptr || !want(",")) return nullptr;
      const Form otherwise = sum_of_terms();
      return otherwise != nullptr && want(")") ? select(p, then, otherwise) : nullptr;
    }
    for (const bool is_truth : {false, true}) {
      const size_t begin = at_;
      uint64_t vector = 0;
      if (!take(is_truth ? "t" : "r")) continue;
      if (at_ >= text_.size() || std::isdigit(static_cast<unsigned char>(text_[at_])) == 0) {
        at_ = begin;
        continue;
      }
      if (!digits(vector) || !want("[")) return nullptr;
      if (vector > kMostVectors) return fail("a smaller number");
      const Form place = sum_of_terms();
      return place != nullptr && want("]") ? read(vector, place, is_truth) : nullptr;
    }
    for (size_t i = 0; i < axes_.size(); ++i)
      if (take(axes_[i].name)) return axis(i, axes_[i].extent);
    return fail("a term");
  }

  static constexpr uint64_t kMostVectors = 1 << 16;
  std::string_view text_;
  const std::vector<NamedAxis>& axes_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string wanted_;
};

}  // namespace

std::string to_text(const Form& x, const std::vector<NamedAxis>& axes) { return Printer(axes).predicate(x); }

Result<Form> parse(std::string_view text, const std::vector<NamedAxis>& axes) { return Parser(text, axes).run(); }

}  // namespace piper::form
