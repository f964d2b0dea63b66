// Rule 7 inside a program, byte by byte: operands fit their kernel's signature; what a call reads was written before,
// by calls of the program or by whoever fills the slot, and in the element type that it is read in; what the program
// declares to write it writes whole; an output shares bytes with an input, or with another output, only where
// kernels.def allows it. What the program takes to be in its slots, and what it leaves there, is recorded: whether that
// fits is a matter of the plans (contents_flow.h).
#pragma once

#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/layouts.h"

namespace piper::verify {

// For a slot.
struct SlotLayout {
  LayoutId reads = kNoLayout;   // what of it calls read that the program did not write itself
  LayoutId leaves = kNoLayout;  // what of it the program wrote
};
// [slot]
using SlotLayouts = std::vector<SlotLayout>;

// P0635, with the call and the operator of the model that it computes. The program's operands lie inside of their slots
// and its workspace, as read_bundle() makes sure. An operand that lies in more than kMostRuns separate runs of bytes is
// looked at as one from its first to its last byte where it is written, and in its first kMostRuns where it is read;
// whether it shares bytes with another operand of its call is known for all of it.
inline constexpr int64_t kMostRuns = 4096;
Result<SlotLayouts> check_program_bytes(const plan::Program& program, Layouts& layouts);

}  // namespace piper::verify
