// Rule on numbers: of a value that is made of a whole piece (pieces.h), a rank that shares experts gets what each rank
// of its group has of its own piece: one such value for each, in which nothing tells their samples apart.
//
// A call on them is the calls on those of each rank by themselves, where the kernel's row says the same of samples: the
// values of the ranks are to it like those of samples, and a row's argument (rows.cc) does not ask what a sample is. So
// the results have the number of the call for one rank's piece, and hold what that makes for each of them; or what it
// makes, added up over all. Functions that are linear in such a sum may follow (linear_shares.h). What each sample of
// these ranks has by itself is, rank by rank, what the samples of its piece have. All else must be the same for all
// samples, and so for all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schemas/verify/numbers/experts.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/rows.h"
#include "schemas/verify/numbers/spread_views.h"

namespace piper::verify {

// Whether the slot has such values, one of each rank, that are in no order of rows.
bool has_pieces_of_ranks(const Spread& spread, Over over);

// Views of them as of values with a sample for each rank, under numbers of their own.
class PiecesOfRanks {
 public:
  // Takes such views among those of a call, and where there are any those of each sample. `experts`, `places`: how they
  // are spread; `samples`: of a piece.
  std::string take(std::vector<View>& views, const std::vector<SpreadView>& experts,
                   const std::vector<SpreadView>& places, int64_t samples, NumberTable& table);
  bool any() const { return !own_.empty(); }
  // The call for the piece of one rank, after `row` was found for all. `operands`: as the row left them. "" or why
  // there is none.
  std::string of_one(plan::KernelCall& call, std::vector<View>& operands, const std::vector<View>& before,
                     const RowResult& row, int64_t ranks) const;

 private:
  struct Own {
    int32_t number = -1;
    ViewAxis samples = {};  // of a value of each sample: the axis that numbers these
  };
  std::map<int32_t, Own> own_;  // by the number of the view
};

}  // namespace piper::verify
