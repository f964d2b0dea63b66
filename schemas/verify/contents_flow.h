// Rules 8 to 10: follows what the bytes of all ranks mean through one step, in issue order. A model input
// holds samples; a run makes values of the samples that it reads, and adds those samples to its
// accumulators; messages and collectives carry contents, reductions add them; an update makes the next
// version of a parameter. Time is linear in accesses; sums are worked out once each.
//
// Proved from the bundle, given that each compute program is right about what is in its own slots:
// - Every sum (gradients, counts of terms, the loss, the norm) holds each sample, or element, exactly once
//   when it is used: at an update, a count's end, a norm, the report. Gradients and counts start each step
//   cleared.
// - A run reads its inputs and saved values for one and the same list of samples, the values and parameters
//   that its slots name, and parameters as they were when the step began: so forward and backward of a
//   microbatch read the same version. Of a parameter that a rank has a part of, that part belongs to the rows that the
//   run reads: member j of an exchange has part j, since part j of what others sent came to it. An addition to a
//   gradient goes to the elements that the program reads as that parameter. Rows that an exchange moves by counts are
//   counted by values of programs, for the samples of these rows.
// - Every copy of a parameter that the next step reads is updated, from a gradient with the same addends; every
//   element of a saved tensor has one owner.
//
// Taken from fields: the chunk, pass and samples of a program; the tensor or the number of the step in a slot. Taken
// from names (held_name.h): a value has the slot name of its maker at its readers; a saved block has the same slot name
// in all programs of its chunk. What is wrong there can only refute.
//
// Trusted: what kernels of compute programs calculate, and that they keep the samples of a value apart in equal
// parts, in order; that rows which came from D ranks stay in D parts until they go back.
#pragma once

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/exchanges.h"
#include "schemas/verify/program_bytes.h"
#include "schemas/verify/sum_order.h"

namespace piper::verify {

struct FoundContents {
  OrdersOfSums orders;
  Exchanges exchanges;
  int64_t replicas = 1;  // of which one was followed for all, as far as they go on alike
};
// All ranks must be there, and rules 1 to 7 hold. `slots`: [program] what rule 7 found of its slots, in `layouts`.
Result<FoundContents> check_contents(const plan::Bundle& bundle, Layouts& layouts,
                                     const std::vector<SlotLayouts>& slots);

}  // namespace piper::verify
