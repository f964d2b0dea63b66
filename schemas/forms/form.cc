#include "schemas/forms/form.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "schemas/base/check.h"

namespace piper::form {
namespace {

using Kind = FormNode::Kind;
using Term = FormNode::Term;

int order(int64_t a, int64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

// A total order by structure; 0 where equal.
int order(const Form& a, const Form& b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (const int o = order(static_cast<int64_t>(a->terms.size()), static_cast<int64_t>(b->terms.size()))) return o;
  if (const int o = order(static_cast<int64_t>(a->operands.size()), static_cast<int64_t>(b->operands.size()))) return o;
  for (size_t i = 0; i < a->terms.size(); ++i) {
    if (const int o = order(a->terms[i].form, b->terms[i].form)) return o;
    if (const int o = order(a->terms[i].factor, b->terms[i].factor)) return o;
  }
  for (size_t i = 0; i < a->operands.size(); ++i)
    if (const int o = order(a->operands[i], b->operands[i])) return o;
  if (const int o = order(a->number, b->number)) return o;
  // Bits: 0 and -0 are two.
  return order(std::bit_cast<int64_t>(a->real), std::bit_cast<int64_t>(b->real));
}
bool before(const Form& a, const Form& b) { return order(a, b) < 0; }

Form predicate(Kind kind, std::vector<Form> operands) {
  FormNode node;
  node.kind = kind;
  node.operands = std::move(operands);
  node.most = 1;
  for (const Form& operand : node.operands) node.reads = node.reads || operand->reads;
  return std::make_shared<const FormNode>(std::move(node));
}

// What a predicate p is of, as factor * p + number: none where x is another sum.
const Term* only_predicate(const Form& x) {
  return x->kind == Kind::kSum && x->terms.size() == 1 && x->terms[0].form->is_predicate() ? &x->terms[0] : nullptr;
}

// A predicate that is `zero` where p is false and `one` where it is true.
Form of_two(const Form& p, bool zero, bool one) {
  if (zero == one) return number(zero ? 1 : 0);
  return one ? p : negation(p);
}

// A form by itself as a sum of one term.
std::vector<Term> terms_of(const Form& x) { return x->kind == Kind::kSum ? x->terms : std::vector<Term>{{1, x}}; }
int64_t number_of(const Form& x) { return x->kind == Kind::kSum ? x->number : 0; }

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

// Sums of bounds are exact; beyond int64 those of what reads are its ends, and others are none.
template <class F>
std::optional<Bounds> bounds_of_sum(const FormNode& sum, const F& of_term) {
  __extension__ using Wide = __int128;
  constexpr Wide kMost = INT64_MAX, kLeast = INT64_MIN, kFar = kMost * kMost;
  Wide least = sum.number, most = sum.number;
  for (const Term& term : sum.terms) {
    const Bounds b = of_term(term.form);
    least = std::clamp<Wide>(least + Wide{term.factor} * (term.factor > 0 ? b.least : b.most), -kFar, kFar);
    most = std::clamp<Wide>(most + Wide{term.factor} * (term.factor > 0 ? b.most : b.least), -kFar, kFar);
  }
  if (!sum.reads && (least < kLeast || most > kMost)) return std::nullopt;
  return Bounds{static_cast<int64_t>(std::clamp(least, kLeast, kMost)),
                static_cast<int64_t>(std::clamp(most, kLeast, kMost))};
}

bool same_terms(const Form& a, const Form& b) {
  const std::vector<Term> x = terms_of(a->operands[0]), y = terms_of(b->operands[0]);
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [](const Term& s, const Term& t) {
           return s.factor == t.factor && order(s.form, t.form) == 0;
         });
}

}  // namespace

Form number(int64_t value) {
  FormNode node;
  node.number = node.least = node.most = value;
  return std::make_shared<const FormNode>(std::move(node));
}

Form real(double value) {
  FormNode node;
  node.kind = Kind::kReal;
  node.real = value;
  return std::make_shared<const FormNode>(std::move(node));
}

Form axis(size_t which, int64_t extent) {
  if (extent <= 1) return number(0);
  FormNode node;
  node.kind = Kind::kAxis;
  node.number = static_cast<int64_t>(which);
  node.most = extent - 1;
  return std::make_shared<const FormNode>(std::move(node));
}

Form sum(int64_t number_added, std::vector<Term> terms) {
  FormNode node;
  node.number = number_added;
  std::vector<Term> flat;
  for (Term& term : terms) {
    if (term.form == nullptr || term.form->is_real()) return nullptr;
    if (term.form->kind != Kind::kSum) {
      flat.push_back(std::move(term));
      continue;
    }
    int64_t part = 0;
    if (__builtin_mul_overflow(term.factor, term.form->number, &part) ||
        __builtin_add_overflow(node.number, part, &node.number))
      return nullptr;
    for (const Term& inner : term.form->terms) {
      int64_t factor = 0;
      if (__builtin_mul_overflow(term.factor, inner.factor, &factor)) return nullptr;
      flat.push_back({factor, inner.form});
    }
  }
  std::sort(flat.begin(), flat.end(), [](const Term& a, const Term& b) { return before(a.form, b.form); });
  for (Term& term : flat) {
    if (node.terms.empty() || order(node.terms.back().form, term.form) != 0) node.terms.push_back(std::move(term));
    else if (__builtin_add_overflow(node.terms.back().factor, term.factor, &node.terms.back().factor)) return nullptr;
  }
  std::erase_if(node.terms, [](const Term& term) { return term.factor == 0; });
  for (const Term& term : node.terms) node.reads = node.reads || term.form->reads;
  const std::optional<Bounds> within =
      bounds_of_sum(node, [](const Form& term) { return Bounds{term->least, term->most}; });
  if (!within) return nullptr;
  node.least = within->least;
  node.most = within->most;
  if (node.number == 0 && node.terms.size() == 1 && node.terms[0].factor == 1) return node.terms[0].form;
  return std::make_shared<const FormNode>(std::move(node));
}

Form not_negative(const Form& x) {
  if (x == nullptr || x->is_real()) return nullptr;
  if (x->least >= 0) return number(1);
  if (x->most < 0) return number(0);
  if (const Term* term = only_predicate(x)) return of_two(term->form, x->number >= 0, x->number + term->factor >= 0);
  return predicate(Kind::kNotNegative, {x});
}

Form is_zero(const Form& x) {
  if (x == nullptr || x->is_real()) return nullptr;
  if (x->least > 0 || x->most < 0) return number(0);
  if (x->is_number()) return number(x->number == 0 ? 1 : 0);
  if (x->is_predicate()) return negation(x);
  if (const Term* term = only_predicate(x)) return of_two(term->form, x->number == 0, x->number + term->factor == 0);
  // x and -x are 0 at the same places.
  if (x->kind == Kind::kSum && x->terms[0].factor < 0)
    if (const Form turned = sum(0, {{-1, x}}); turned != nullptr) return predicate(Kind::kIsZero, {turned});
  return predicate(Kind::kIsZero, {x});
}

Form negation(const Form& p) {
  if (p == nullptr || !p->is_predicate()) return nullptr;
  if (p->is_number()) return number(1 - p->number);
  if (p->kind == Kind::kNot) return p->operands[0];
  if (p->kind == Kind::kNotNegative) return not_negative(sum(-1, {{-1, p->operands[0]}}));
  return predicate(Kind::kNot, {p});
}

Form all(std::vector<Form> predicates) {
  std::vector<Form> parts;
  while (!predicates.empty()) {
    const Form p = std::move(predicates.back());
    predicates.pop_back();
    if (p == nullptr || !p->is_predicate()) return nullptr;
    if (p->kind == Kind::kAll) predicates.insert(predicates.end(), p->operands.begin(), p->operands.end());
    else if (!p->is_number()) parts.push_back(p);
    else if (p->number == 0) return number(0);
  }
  std::sort(parts.begin(), parts.end(), before);
  parts.erase(std::unique(parts.begin(), parts.end(), equal), parts.end());
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t j = 0; j < parts.size(); ++j) {
      if (i == j) continue;
      if (const Form not_i = negation(parts[i]); not_i != nullptr && equal(not_i, parts[j])) return number(0);
      // The tighter of two bounds of one sum says both.
      const bool bounds = parts[i]->kind == Kind::kNotNegative && parts[j]->kind == Kind::kNotNegative;
      if (!bounds || !same_terms(parts[i], parts[j])) continue;
      if (number_of(parts[i]->operands[0]) < number_of(parts[j]->operands[0])) {
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(j));
        return all(std::move(parts));
      }
    }
  if (parts.empty()) return number(1);
  if (parts.size() == 1) return parts[0];
  return predicate(Kind::kAll, std::move(parts));
}

Form any(std::vector<Form> predicates) {
  for (Form& p : predicates) p = negation(p);
  return negation(all(std::move(predicates)));
}

Form select(const Form& p, const Form& then, const Form& otherwise) {
  if (p == nullptr || then == nullptr || otherwise == nullptr || !p->is_predicate()) return nullptr;
  if (then->is_real() != otherwise->is_real()) return nullptr;
  if (p->is_number()) return p->number == 1 ? then : otherwise;
  if (equal(then, otherwise)) return then;
  if (p->kind == Kind::kNot) return select(p->operands[0], otherwise, then);
  if (then->is_predicate() && otherwise->is_predicate()) return any({all({p, then}), all({negation(p), otherwise})});
  FormNode node;
  node.kind = Kind::kSelect;
  node.operands = {p, then, otherwise};
  node.least = std::min(then->least, otherwise->least);
  node.most = std::max(then->most, otherwise->most);
  for (const Form& operand : node.operands) node.reads = node.reads || operand->reads;
  return std::make_shared<const FormNode>(std::move(node));
}

Form quotient(const Form& x, int64_t divisor) {
  if (x == nullptr || x->is_real() || divisor == 0 || divisor == INT64_MIN) return nullptr;
  if (divisor < 0) return quotient(sum(0, {{-1, x}}), -divisor);
  if (divisor == 1) return x;
  // Multiples of the divisor are divided exactly, apart from the rest.
  std::vector<Term> whole, rest;
  for (const Term& term : terms_of(x)) {
    if (term.factor % divisor == 0) whole.push_back({term.factor / divisor, term.form});
    else rest.push_back(term);
  }
  const int64_t whole_number = floor_of(number_of(x), divisor);
  const Form remaining = sum(number_of(x) - whole_number * divisor, std::move(rest));
  if (remaining == nullptr) return nullptr;
  const int64_t least = floor_of(remaining->least, divisor), most = floor_of(remaining->most, divisor);
  if (least == most) {
    whole.push_back({least, number(1)});
    return sum(whole_number, std::move(whole));
  }
  FormNode node;
  node.kind = Kind::kQuotient;
  const bool again =
      remaining->kind == Kind::kQuotient && !__builtin_mul_overflow(divisor, remaining->number, &node.number);
  if (!again) node.number = divisor;
  node.operands = again ? remaining->operands : std::vector<Form>{remaining};
  node.least = least;
  node.most = most;
  node.reads = remaining->reads;
  whole.push_back({1, std::make_shared<const FormNode>(std::move(node))});
  return sum(whole_number, std::move(whole));
}

Form read(size_t vector, const Form& place, bool is_truth) {
  if (place == nullptr || place->is_real()) return nullptr;
  FormNode node;
  node.kind = Kind::kRead;
  node.number = static_cast<int64_t>(vector);
  node.operands = {place};
  node.least = is_truth ? 0 : INT64_MIN;
  node.most = is_truth ? 1 : INT64_MAX;
  node.reads = true;
  return std::make_shared<const FormNode>(std::move(node));
}

namespace {

// The form with what `leaf` makes of each axis and each read, whose place is already made.
template <class F>
Form rebuilt(const Form& x, const F& leaf) {
  if (x == nullptr) return nullptr;
  std::vector<Form> operands;
  for (const Form& operand : x->operands) operands.push_back(rebuilt(operand, leaf));
  switch (x->kind) {
    case Kind::kAxis: return leaf(x, nullptr);
    case Kind::kRead: return leaf(x, operands[0]);
    case Kind::kSum: {
      std::vector<Term> terms;
      for (const Term& term : x->terms) terms.push_back({term.factor, rebuilt(term.form, leaf)});
      return sum(x->number, std::move(terms));
    }
    case Kind::kNotNegative: return not_negative(operands[0]);
    case Kind::kIsZero: return is_zero(operands[0]);
    case Kind::kNot: return negation(operands[0]);
    case Kind::kAll: return all(std::move(operands));
    case Kind::kSelect: return select(operands[0], operands[1], operands[2]);
    case Kind::kReal: return x;
    case Kind::kQuotient: return quotient(operands[0], x->number);
  }
  return nullptr;
}

}  // namespace

Form substituted(const Form& x, const std::vector<Form>& axes) {
  return rebuilt(x, [&](const Form& leaf, const Form& place) -> Form {
    if (leaf->kind == Kind::kRead) return read(static_cast<size_t>(leaf->number), place, leaf->is_predicate());
    return axes.at(static_cast<size_t>(leaf->number));
  });
}

Form renumbered(const Form& x, const std::vector<size_t>& numbers) {
  return rebuilt(x, [&](const Form& leaf, const Form& place) -> Form {
    if (leaf->kind == Kind::kAxis) return leaf;
    return read(numbers.at(static_cast<size_t>(leaf->number)), place, leaf->is_predicate());
  });
}

Bounds bounds(const Form& x, const std::vector<Bounds>& axes) {
  const auto operand = [&](size_t i) { return bounds(x->operands[i], axes); };
  switch (x->kind) {
    case Kind::kAxis: return axes.at(static_cast<size_t>(x->number));
    case Kind::kRead: return {x->least, x->most};
    case Kind::kSum:
      return bounds_of_sum(*x, [&](const Form& term) { return bounds(term, axes); })
          .value_or(Bounds{INT64_MIN, INT64_MAX});
    case Kind::kNotNegative: {
      const Bounds b = operand(0);
      return {b.least >= 0 ? 1 : 0, b.most >= 0 ? 1 : 0};
    }
    case Kind::kIsZero: {
      const Bounds b = operand(0);
      return {b.least == 0 && b.most == 0 ? 1 : 0, b.least <= 0 && b.most >= 0 ? 1 : 0};
    }
    case Kind::kNot: {
      const Bounds b = operand(0);
      return {1 - b.most, 1 - b.least};
    }
    case Kind::kAll: {
      Bounds all{1, 1};
      for (const Form& part : x->operands) {
        const Bounds b = bounds(part, axes);
        all = {std::min(all.least, b.least), std::min(all.most, b.most)};
      }
      return all;
    }
    case Kind::kSelect: {
      const Bounds p = operand(0), a = operand(1), b = operand(2);
      if (p.least == p.most) return p.least == 1 ? a : b;
      return {std::min(a.least, b.least), std::max(a.most, b.most)};
    }
    case Kind::kQuotient: {
      const Bounds b = operand(0);
      return {floor_of(b.least, x->number), floor_of(b.most, x->number)};
    }
    case Kind::kReal: break;
  }
  return {};
}

bool equal(const Form& a, const Form& b) { return a != nullptr && b != nullptr && order(a, b) == 0; }

bool depends_on(const Form& x, size_t which) {
  if (x->kind == Kind::kAxis) return static_cast<size_t>(x->number) == which;
  const auto does = [&](const Form& part) { return depends_on(part, which); };
  return std::any_of(x->operands.begin(), x->operands.end(), does) ||
         std::any_of(x->terms.begin(), x->terms.end(), [&](const Term& term) { return does(term.form); });
}

namespace {

// sum + factor * x. In int64 the result is; what it is added up from need not be.
double plus_times(double sum, int64_t factor, double x) { return sum + static_cast<double>(factor) * x; }
int64_t plus_times(int64_t sum, int64_t factor, int64_t x) {
  return static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(factor) * static_cast<uint64_t>(x));
}

double floor_of(double dividend, int64_t divisor) { return std::floor(dividend / static_cast<double>(divisor)); }

// T: double, or int64_t where no part is a real number.
template <class T>
T number_at(const Form& x, const std::vector<int64_t>& place) {
  const auto operand = [&](size_t i) { return number_at<T>(x->operands[i], place); };
  switch (x->kind) {
    case Kind::kAxis: return static_cast<T>(place.at(static_cast<size_t>(x->number)));
    case Kind::kSum: {
      auto value = static_cast<T>(x->number);
      for (const Term& term : x->terms) value = plus_times(value, term.factor, number_at<T>(term.form, place));
      return value;
    }
    case Kind::kNotNegative: return operand(0) >= 0 ? 1 : 0;
    case Kind::kIsZero: return operand(0) == 0 ? 1 : 0;
    case Kind::kNot: return 1 - operand(0);
    case Kind::kAll:
      return std::all_of(x->operands.begin(), x->operands.end(),
                         [&](const Form& part) { return number_at<T>(part, place) != 0; })
                 ? 1
                 : 0;
    case Kind::kSelect: return operand(0) != 0 ? operand(1) : operand(2);
    case Kind::kQuotient: return floor_of(operand(0), x->number);
    case Kind::kReal:
      if constexpr (std::is_same_v<T, double>) return x->real;
      PIPER_CHECK(false, "a form that is no integer of its places");
      break;
    case Kind::kRead: PIPER_CHECK(false, "a form that reads has no value of its own");
  }
  return 0;
}

}  // namespace

double value_at(const Form& x, const std::vector<int64_t>& place) { return number_at<double>(x, place); }
int64_t integer_at(const Form& x, const std::vector<int64_t>& place) { return number_at<int64_t>(x, place); }

}  // namespace piper::form
