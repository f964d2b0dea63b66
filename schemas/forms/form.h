// Values as functions of their places: a causal mask of S x S elements is "key <= query" at any S. Used by the
// compiler's evaluator for constants that are too many to be written out, by what recognises patterns in them, and for
// the masks of attention, which kernels evaluate.
//
// A form is a number that depends on the axes of the value it is of. Those of integers and booleans (0 or 1) are sums
// of axes and of other forms, quotients, predicates, and selections; those of floats are selections of given numbers.
// A form may read vectors whose numbers are known to the run alone. Two forms that are made by the functions below and
// are equal() are the same function; the same function may have two forms. All arithmetic is exact: what leaves int64
// has no form, which is the null pointer, and so has what is made of it. What is read is taken to be farther from the
// ends of int64 than the numbers that are added to it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace piper {

struct FormNode;
using Form = std::shared_ptr<const FormNode>;

struct FormNode {
  enum class Kind : uint8_t {
    kSum,          // number + the sum of factor * form; without terms a number
    kAxis,         // the place on axis `number`
    kNotNegative,  // whether operands[0] >= 0
    kIsZero,       // whether operands[0] = 0
    kNot,          // whether operands[0], a predicate, is false
    kAll,          // whether all operands, predicates, are true
    kSelect,       // operands[1] where operands[0], else operands[2]
    kReal,         // the float `real`
    kQuotient,     // operands[0] / number, rounded down; number > 1
    kRead,         // the element at place operands[0] of vector `number`
  };
  struct Term {
    int64_t factor = 1;
    Form form;  // no sum
  };
  Kind kind = Kind::kSum;
  int64_t number = 0;
  std::vector<Term> terms;     // kSum: in the order of their forms, no factor is 0
  std::vector<Form> operands;  // kAll: in order
  double real = 0;
  int64_t least = 0, most = 0;  // bounds of its values; of floats 0
  bool reads = false;           // a vector; bounds beyond int64 are then its ends

  bool is_number() const { return kind == Kind::kSum && terms.empty(); }
  bool is_predicate() const { return least >= 0 && most <= 1 && !is_real(); }
  bool is_real() const {
    return kind == Kind::kReal || (kind == Kind::kSelect && operands[1] != nullptr && operands[1]->is_real());
  }
};

namespace form {

Form number(int64_t value);
Form real(double value);
Form axis(size_t which, int64_t extent);  // extent > 0; the number 0 where it is 1
Form sum(int64_t number, std::vector<FormNode::Term> terms);
Form not_negative(const Form& x);
Form is_zero(const Form& x);
Form negation(const Form& predicate);
Form all(std::vector<Form> predicates);
Form any(std::vector<Form> predicates);
Form select(const Form& predicate, const Form& then, const Form& otherwise);
Form quotient(const Form& x, int64_t divisor);  // rounded down; divisor != 0
// Of a vector of truth values, 0 or 1, or of any numbers. `place` stays within it.
Form read(size_t vector, const Form& place, bool is_truth);

// The form with a form for each of its axes.
Form substituted(const Form& x, const std::vector<Form>& axes);
// The form with other numbers for the vectors that it reads: vector i becomes numbers[i]. The numbers rise with i where
// the form reads them.
Form renumbered(const Form& x, const std::vector<size_t>& numbers);

struct Bounds {
  int64_t least = 0, most = 0;
};
// The bounds of its values where each axis has these bounds; not those of floats.
Bounds bounds(const Form& x, const std::vector<Bounds>& axes);

bool equal(const Form& a, const Form& b);
bool depends_on(const Form& x, size_t axis);
// Its value at one place; of floats too. It reads nothing.
double value_at(const Form& x, const std::vector<int64_t>& place);
// The same, of one of integers, exactly.
int64_t integer_at(const Form& x, const std::vector<int64_t>& place);

}  // namespace form
}  // namespace piper
