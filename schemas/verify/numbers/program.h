// Evaluates a program on numbers: from the numbers of what its slots hold to those of what it leaves in them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {

// The values in a slot or workspace, by the byte where they begin.
struct HeldValue {
  int64_t end = 0;    // behind its last byte
  int64_t first = 0;  // the element of the value that lies at the beginning
  int32_t number = -1;
  int64_t period = 0;  // elements: the value is repeated (repetitions.h); 0: it is not
  int64_t block = 0;   // elements of a sample behind which the next sample's stand; 0: all of them
  friend bool operator==(const HeldValue&, const HeldValue&) = default;
};
class HeldValues {
 public:
  void put(int64_t begin, HeldValue value);
  // The value that holds all of [begin, end), or nullptr; `at`: where it begins.
  const HeldValue* find(int64_t begin, int64_t end, int64_t& at) const;
  const std::map<int64_t, HeldValue>& all() const { return values_; }

 private:
  std::map<int64_t, HeldValue> values_;
};

// What a run adds to the bytes [begin, end) of a slot: elements of a value in the order in which they are added.
struct Contribution {
  int32_t slot = -1;
  int64_t begin = 0, end = 0;
  View view;
  int32_t call = -1;
};

struct NumberedProgram {
  const plan::Program* program = nullptr;
  int32_t index = -1;                       // for Number::program
  int64_t samples = 1;                      // of a piece; of a reference Reference::kSamples
  bool whole = false;                       // the piece is the whole step
  bool by_pieces = false;                   // samples of a piece may be read together (pieces.h)
  std::vector<HeldValues> slots;            // [slot] before: what it finds; after: what it leaves
  std::vector<int32_t> totals;              // [slot] a sum of the step that the program reads; -1: not known
  std::vector<Contribution> contributions;  // in the order of the calls
  std::vector<int32_t> made;                // numbers, in the order of the calls
};

// Runs the calls. Nothing fails: what is not covered becomes an unknown number, which says why.
void number_program(NumberedProgram& run, NumberTable& table);

}  // namespace piper::verify
