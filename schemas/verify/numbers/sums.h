// What is added up: multisets of values. A sum that is added up itself is taken apart (linear.h), so that it does not
// matter whether a program adds two values and then their sum, or one after the other: up to rounding, which
// strategies may change, these are the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/program.h"
#include "schemas/verify/numbers/rows.h"

namespace piper::verify {

struct Term {
  View view;
  int64_t begin = 0, end = 0;       // bytes of the accumulator
  int32_t program = -1, call = -1;  // that adds it
  std::string key;                  // equal where the terms are
};
using Terms = std::vector<Term>;

void append_terms(const Contribution& contribution, int32_t program, const NumberTable& table, Terms& terms);
bool same_terms(Terms a, Terms b, const NumberTable& table);
// What is in one of them more often than in the other.
void differences(Terms wanted, Terms found, const NumberTable& table, Terms& missing, Terms& foreign);

// A sum over the samples of a piece that is the whole step is the step's sum: the same elements are added up, and the
// view names the same of them.
void take_total(View& view, NumberTable& table);
// Makes operands of an addition that have no samples the sums that they are where `pieces` pieces add each. False: it
// adds no sum, or a part of such an operand.
bool take_shares(const plan::KernelCall& call, double pieces, std::vector<View>& operands, NumberTable& table);
// A linear function of a total is the total of that function: as models compute it of the sum. Whether a call that
// makes no sum is one, its operands then being the sums.
bool take_sums_of_totals(const Row& row, const plan::KernelCall& call, NumberTable& table, int64_t samples,
                         std::vector<View>& operands);
// A step's sum of whole numbers that was added up as another type is, cast back, the sum of these. Where the call is
// such a cast, `operand` becomes its result.
bool take_back_cast(const plan::KernelCall& call, View& operand, NumberTable& table);
// The number of a whole sum over the step, which programs read: a count of terms. Unknown where a term is.
int32_t total_of(Terms terms, int64_t bytes, NumberTable& table);

}  // namespace piper::verify
