#include "compiler/frontend/fold/form.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "schemas/base/check.h"

namespace piper::frontend::form {
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
  node.least = node.most = node.number;
  for (const Term& term : node.terms) {
    int64_t low = 0, high = 0;
    if (__builtin_mul_overflow(term.factor, term.factor > 0 ? term.form->least : term.form->most, &low) ||
        __builtin_mul_overflow(term.factor, term.factor > 0 ? term.form->most : term.form->least, &high) ||
        __builtin_add_overflow(node.least, low, &node.least) || __builtin_add_overflow(node.most, high, &node.most))
      return nullptr;
  }
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
      // Of two bounds of one sum the tighter one says both.
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
  return std::make_shared<const FormNode>(std::move(node));
}

Form substituted(const Form& x, const std::vector<Form>& axes) {
  if (x == nullptr) return nullptr;
  std::vector<Form> operands;
  for (const Form& operand : x->operands) operands.push_back(substituted(operand, axes));
  switch (x->kind) {
    case Kind::kAxis: return axes.at(static_cast<size_t>(x->number));
    case Kind::kSum: {
      std::vector<Term> terms;
      for (const Term& term : x->terms) terms.push_back({term.factor, substituted(term.form, axes)});
      return sum(x->number, std::move(terms));
    }
    case Kind::kNotNegative: return not_negative(operands[0]);
    case Kind::kIsZero: return is_zero(operands[0]);
    case Kind::kNot: return negation(operands[0]);
    case Kind::kAll: return all(std::move(operands));
    case Kind::kSelect: return select(operands[0], operands[1], operands[2]);
    case Kind::kReal: return x;
  }
  return nullptr;
}

bool equal(const Form& a, const Form& b) { return a != nullptr && b != nullptr && order(a, b) == 0; }

bool depends_on(const Form& x, size_t which) {
  if (x->kind == Kind::kAxis) return static_cast<size_t>(x->number) == which;
  const auto does = [&](const Form& part) { return depends_on(part, which); };
  return std::any_of(x->operands.begin(), x->operands.end(), does) ||
         std::any_of(x->terms.begin(), x->terms.end(), [&](const Term& term) { return does(term.form); });
}

double value_at(const Form& x, const std::vector<int64_t>& place) {
  const auto operand = [&](size_t i) { return value_at(x->operands[i], place); };
  switch (x->kind) {
    case Kind::kAxis: return static_cast<double>(place.at(static_cast<size_t>(x->number)));
    case Kind::kSum: {
      auto value = static_cast<double>(x->number);
      for (const Term& term : x->terms) value += static_cast<double>(term.factor) * value_at(term.form, place);
      return value;
    }
    case Kind::kNotNegative: return operand(0) >= 0 ? 1 : 0;
    case Kind::kIsZero: return operand(0) == 0 ? 1 : 0;
    case Kind::kNot: return 1 - operand(0);
    case Kind::kAll:
      return std::all_of(x->operands.begin(), x->operands.end(),
                         [&](const Form& part) { return value_at(part, place) != 0; })
                 ? 1
                 : 0;
    case Kind::kSelect: return operand(0) != 0 ? operand(1) : operand(2);
    case Kind::kReal: return x->real;
  }
  return 0;
}

}  // namespace piper::frontend::form
