// Rule on numbers: what a kernel makes of the samples of a piece together, in whatever way, is one value of pieces of
// that size. Right because a kernel is a function of its operands and attributes: the same call on the same operands
// makes the same, whatever it does with samples. So a plan is held to the model for each piece by itself, which is what
// a strategy asks for whose model normalises over a batch, takes statistics of it, or has its batch fixed; the samples
// of a piece are in such a number, and the report names the kernels at which this begins.
//
// It holds of references for pieces (reference.h) alone, and of plans all of whose pieces are of that size.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/rows.h"

namespace piper::verify {

// Whether results of a call on these operands, of which `rows` is what its row says, are values of the piece. Those of
// a kernel without a row always are.
bool is_of_piece(const std::vector<View>& operands, const std::vector<RowResult>& rows, const NumberTable& table);

// Kernels that made a value of the piece out of others.
std::set<std::string> kernels_that_mix(const std::vector<int32_t>& made, const NumberTable& table);

}  // namespace piper::verify
