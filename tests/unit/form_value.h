// The value of a form at one place, with what its vectors hold: by its definition, apart from the steps that kernels
// run.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "schemas/forms/form.h"

namespace piper::form {

struct At {
  std::vector<int64_t> place;    // by axis
  std::vector<int64_t> vectors;  // one after the other
  int64_t places = 0;            // of each vector
};

inline int64_t value_in(const Form& x, const At& at) {
  using Kind = FormNode::Kind;
  const auto part = [&](size_t i) { return value_in(x->operands[i], at); };
  switch (x->kind) {
    case Kind::kSum: {
      int64_t sum = x->number;
      for (const FormNode::Term& term : x->terms) sum += term.factor * value_in(term.form, at);
      return sum;
    }
    case Kind::kAxis: return at.place[static_cast<size_t>(x->number)];
    case Kind::kNotNegative: return part(0) >= 0;
    case Kind::kIsZero: return part(0) == 0;
    case Kind::kNot: return part(0) == 0;
    case Kind::kAll:
      for (size_t i = 0; i < x->operands.size(); ++i)
        if (part(i) == 0) return 0;
      return 1;
    case Kind::kSelect: return part(0) != 0 ? part(1) : part(2);
    case Kind::kQuotient: {
      const int64_t a = part(0);
      return a / x->number - (a % x->number < 0 ? 1 : 0);
    }
    case Kind::kRead: return at.vectors.at(static_cast<size_t>(x->number * at.places + part(0)));
    case Kind::kReal: break;
  }
  throw std::logic_error("a float in a predicate");
}

}  // namespace piper::form
