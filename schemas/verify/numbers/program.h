// Evaluates a program on numbers: from the numbers of what its slots hold to those of what it leaves in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {

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
  int64_t batch = 1;                        // samples of the step
  bool whole = false;                       // the piece is the whole step
  bool by_pieces = false;                   // samples of a piece may be read together (pieces.h)
  int32_t known = 0;                        // numbers below are the reference's, to which a call's choices are held
  std::vector<int64_t> places;              // [cut]
  std::vector<HeldValues> slots;            // [slot] before: what it finds; after: what it leaves
  std::vector<Spread> parts;                // [slot] of a gradient of a tensor that is cut, what a rank has of it
  bool ambiguous = false;                   // what a place has could be read in several ways, none of them the model's
  std::vector<int32_t> totals;              // [slot] a sum of the step that the program reads; -1: not known
  std::vector<Contribution> contributions;  // in the order of the calls
  std::vector<int32_t> made;                // numbers, in the order of the calls
};

// Runs the calls. Nothing fails: what is not covered becomes an unknown number, which says why.
void number_program(NumberedProgram& run, NumberTable& table);

}  // namespace piper::verify
