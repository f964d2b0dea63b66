// Rule on numbers: what ranks that share experts compute is what one device computes for all of them. Of E experts each
// of D ranks has E/D, and their weights; a program is the same for all D, so it is evaluated once, for any of them.
//
// A value of such a program is a part of a value of one device, or a share of one (Spread). Right because
// - of a kernel that computes each place along some axis by itself, a part of its operands along that axis makes that
//   part of its result, whatever rank has it: its number is the one of the whole call, which has all experts' extents;
// - a kernel that sums over that axis makes a rank's share of the sum; the sum of all shares is the sum over all
//   experts, and a function that is linear in the shares may come before it;
// - samples of several ranks are samples: a row's argument (rows.cc) does not ask whose.
// That all parts of a run are the same rank's is rule 9: a run reads of a parameter the part that belongs to the place
// in the group to which others sent the rows that it reads; of a tensor that is cut, the part of the rank's place.
//
// The same holds of the places of a cut, whose ranks all have the same samples: of heads of attention, rows or columns
// of a matrix each place has its part; a product that sums over them makes a share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/spread_views.h"

namespace piper::verify {

// A call as one device makes it, for all experts, and where its results have what a rank has of them.
struct WholeCall {
  plan::KernelCall call;
  std::vector<View> operands;
  int64_t samples = 1;                // that operands have
  Spread spread;                      // of all results; without part
  int32_t part = -1;                  // axis of the results
  int64_t segments = 1;               // of that axis
  std::vector<int64_t> extents = {};  // of segments of unequal size
  int64_t surplus = 0;                // of that axis: places of all ranks' parts that the whole results do not have
  // Of the results after the first, where they have another axis: the statistics of a norm's rows, in one.
  int64_t segments_of_rows = 0;  // of each sample; 0: they have the same
  int32_t sources = -1;          // axis of the results that the whole call lacks
  // Of a loss of parts of the classes: the number that has to be the sum over places of row_lse of these operands.
  int32_t statistics = -1;
  std::string why;     // what is not covered; "" where all is
  bool wrong = false;  // ... as no model has such a call
  // ... where operands can be read in no other way: another might be what a model has.
  bool wrong_as_read = false;
};
// `places`: of each result after how many axes, in the order of its memory, the axis is of which a rank has one
// place: what the rank has looks alike wherever that is. -1, and where there are none: where its stride puts it.
// `repeated`: what has one place beside the others' one of that axis is read again for each of them, as by a view that
// repeats it, and not by a kernel that does.
WholeCall whole_call(const plan::KernelCall& call, const std::vector<View>& operands,
                     const std::vector<SpreadView>& where, const NumberTable& table, int64_t samples,
                     const std::vector<int32_t>& places = {}, bool repeated = false);

// How a rank's part of result `i` lies in its memory; `held` has how the whole one would. `sample_axis`: of the whole
// call's result, -1: none. "" or what is not covered.
std::string lay_out(const WholeCall& whole, const plan::Operand& out, size_t i, int32_t sample_axis, int64_t samples,
                    HeldValue& held);

}  // namespace piper::verify
