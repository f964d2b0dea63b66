// Rule on numbers: what an exchange among the ranks of an expert group makes of a value. Right because an exchange
// moves elements and computes nothing: of D ranks, each with D parts of equal size, part j of what rank i has becomes
// part i of what rank j has (rules 2 and 9 say that it is this one, of the same samples, from the ranks in their
// order).
// - What a rank has of its own samples, cut into D parts along its outermost axis: rank j then has part j for the
//   samples of all ranks. Where that axis is one of the experts, each rank has the part of its own experts (experts.h).
// - What a rank has for the samples of all, rank by rank: it then has what the others made for its own samples, rank by
//   rank: of a value of which each had the part of its experts, all parts; of a sum over experts, all shares.
// What the places of a cut add up is a value of which each of them has a share: it is the value. Shares of a value go
// where its elements go: all places exchange alike, and a sum of moved elements is the moved sum.
// Rows in the order of their experts travel in segments, as ordered_rows.h says.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/verify/exchanges.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// What is left in the slots by which an exchange counts its rows, as their makers name them.
struct CountedRows {
  HeldValues sent, received;
};

// What is after `exchange` in a slot of `bytes` that `reader` reads, where its maker left `sent` in a program for
// `samples` samples of each rank. `counts`: of Exchange::counts. What no rule covers is an unknown number.
HeldValues exchanged(const HeldValues& sent, const Exchange& exchange, const std::vector<CountedRows>& counts,
                     int64_t bytes, int64_t samples, int32_t reader, NumberTable& table);

// The same where shares are added up over the places of `cut`, which has `devices`.
HeldValues added_up(const HeldValues& sent, int32_t cut, int64_t devices, int64_t bytes, int32_t reader,
                    NumberTable& table);

}  // namespace piper::verify
