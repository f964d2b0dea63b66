// A form as steps of a machine with a stack of 64-bit numbers, for kernels that evaluate it at many places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schemas/forms/form.h"

namespace piper::form {

enum class StepKind : uint8_t {
  kNumber,       // pushes `number`
  kAxis,         // pushes the place on axis `number`
  kRead,         // replaces the top, a place, by the element there of vector `number`
  kAddTimes,     // pops x; the top becomes top + number * x
  kQuotient,     // the top becomes top / number, rounded down
  kNotNegative,  // the top becomes 1 where it is >= 0, else 0; so do the next ones
  kIsZero,       // where it is 0
  kNot,          // where it is 0; of predicates
  kAnd,          // pops p; the top becomes top and p
  kSelect,       // pops b, then a; the top, a predicate, becomes a where it is 1, else b
};
struct Step {
  StepKind kind = StepKind::kNumber;
  int64_t number = 0;
};

// Machines have room for these; a form that needs more has no program.
constexpr size_t kMostSteps = 64, kMostDepth = 8;

// The steps of a form without floats, which leave its value on the stack; nullopt where they are too many or too deep.
std::optional<std::vector<Step>> program_of(const Form& x);

}  // namespace piper::form
