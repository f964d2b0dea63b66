// Forms of integers and predicates as text, in plans:
//
//   predicate  both, or "a | b": one of them; "a & b" binds closer; "!a"; "(a)"; "sum >= 0"; "sum = 0"; a truth value
//   sum        terms joined by + and -, each NUMBER, NUMBER*term or a term:
//              an axis, by its name; rI[sum], tI[sum]: element of vector I, of numbers or of truth values;
//              floor(term / NUMBER), floor((sum) / NUMBER); if(predicate, sum, sum); [predicate], which is 0 or 1
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/forms/form.h"

namespace piper::form {

struct NamedAxis {
  std::string name;  // letters
  int64_t extent = 1;
};

// `x` has no float. The text of two forms is the same exactly where they are equal().
std::string to_text(const Form& x, const std::vector<NamedAxis>& axes);
// The form that has this text: parse(to_text(x)) is equal() to x. Fails, without a code, on any other text.
Result<Form> parse(std::string_view text, const std::vector<NamedAxis>& axes);

}  // namespace piper::form
