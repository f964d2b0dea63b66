// Rule on numbers: rows that an expert_order has put in the order of their experts are, in however many segments they
// are and whichever ranks have them, the rows that one device has in one segment.
//
// An order gives each expert the first `capacity` of the rows that ask for it. In one segment expert follows expert; in
// D segments those of rank 0 come first, then those of rank 1, ..., with padding after each. A row has a place in both
// or in none. So a value in segments has the number of one device's value, whose row at the row's place it has at the
// row's place in segments; nothing is said of padding. By induction over calls:
// - The order itself holds, place by place, the same rows; positions are the places that it gives. Rows that are taken
//   by an order are in that order, and rows in an order that are taken by its positions are the model's again.
// - Where a kernel computes each row by itself, from what is the same for all rows, it does so in any order: rows are
//   like samples there, and a row's argument (rows.cc) says which kernels do.
// - A product by groups takes the rows of each expert by the counts of their own order. One that sums over the rows of
//   an expert makes, from the rows of D ranks, the sum of D values: of what it makes of the rows of each. Functions
//   that are linear in it may follow (experts.cc).
// - Counts of experts in one segment are those in D segments, in one memory.
// - An exchange moves segments: segment j of what rank i has becomes segment i of what rank j has. By counts it moves
//   as many rows of each segment as these say; where that is how many rows of this order are in the segment, all
//   of them.
// - Each place of a cut may order the rows of its own part. These are as many orders as there are places, which have
//   together the rows that one has, and each keeps its rows as the one does: a value in them has the number of the
//   value in that one, of whose rows a place has those of its part. Rows that are taken by it come from the same part
//   of what they are taken of, and go back to it; ranks that got the rows of all places have those of the one order.
//   Where each place gives an expert the first `capacity` rows of its own part, that one order does so for each part:
//   this is an order of the reference alone, which says so (attrs.h).
// Which rows are in an order depends on the samples that are together, where there is a capacity; so this is a rule
// on values of pieces (pieces.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/exchanges.h"
#include "schemas/verify/numbers/experts.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {

// The view of elements of a value that belongs to an order, as one device has it. `size`: elements that one device has,
// of rows as much of each as the rank has. "" or why it is none.
std::string view_of_ordered(const StridedElements& elements, const HeldValue& value, int64_t size, View& view,
                            SpreadView& where);

// An expert_order of several segments as the one of one segment. Nothing where the call is none of several.
struct WholeOrder {
  plan::KernelCall call;  // with all results' shapes, in the order of the kernel's outputs
  RowOrder order;         // of the results, except `kind` and `counts`
  std::string why;        // what is not covered; "" where all is
  bool wrong = false;     // ... what no sound call does
};
// `ids`: how these are read, where a place of a cut has a part of them.
std::optional<WholeOrder> whole_order(const plan::KernelCall& call, const View& view, const SpreadView& ids,
                                      int64_t samples);

// A call on what belongs to orders, as the call that one device makes.
struct OrderedCall {
  WholeCall whole;     // the results' spread says how they are held
  bool plain = false;  // the call is one that one device makes as it is
  bool wrong = false;  // whole.why says what no sound call does, and not only what is not covered
};
OrderedCall ordered_call(const plan::KernelCall& call, const std::vector<View>& operands,
                         const std::vector<SpreadView>& where, NumberTable& table);

// What is left in the slots by which an exchange counts its rows; nullptr where that is not known.
struct CountedBy {
  const HeldValue *sent = nullptr, *received = nullptr;
};
// What is after an exchange of `sent`, which belongs to an order, in a slot of `bytes`. `counts`: of all places
// where the value travels.
struct MovedRows {
  HeldValue value;
  std::string why;     // what is not covered; "" where all is
  bool wrong = false;  // ... what no sound exchange does
};
MovedRows exchanged_rows(const HeldValue& sent, const Exchange& exchange, const std::vector<CountedBy>& counts,
                         int64_t bytes, const NumberTable& table);

}  // namespace piper::verify
