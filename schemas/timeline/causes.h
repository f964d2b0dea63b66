// Why an instruction of a timeline did not begin earlier: the instruction before it on its stream, what recorded
// the event that it waited for, or the last end of its transfer to come. assess.h follows these from the step's end,
// line_costs.h from the end of every gap in a rank's work. It holds for simulated and for measured timelines.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/timeline/timeline.h"

namespace piper::timeline {

// A part of a path: so much of an instruction's time is on it.
struct CriticalPiece {
  TransferEnd instruction;
  double begin = 0, end = 0;
};

class Causes {
 public:
  // Both must outlive it.
  Causes(const plan::Bundle& bundle, const Timeline& timeline);

  // The instruction that ends last; of several the first loaded rank's. None in an empty step: instruction -1.
  TransferEnd last_one() const;
  // From `at` back through what each instruction waited for last, until `since`; in order of time, pieces do not
  // overlap. Waits are no pieces of it: what they waited for is.
  std::vector<CriticalPiece> path_to(TransferEnd at, double since = 0) const;
  // The transfer that it is an end of, an index into Timeline::transfers; -1: of none.
  int32_t transfer_of(const TransferEnd& at) const;

 private:
  const Activity& of(const TransferEnd& at) const;
  TransferEnd before(const TransferEnd& at) const;
  TransferEnd cause(const TransferEnd& at, int32_t transfer) const;

  const plan::Bundle& bundle_;
  const Timeline& timeline_;
  std::vector<std::vector<int32_t>> transfers_;  // [loaded rank][instruction] -> its transfer, or -1
  std::vector<std::vector<int32_t>> before_;     // [loaded rank][instruction] -> the one before it on its stream, or -1
  std::vector<std::vector<int32_t>> records_;    // [loaded rank][event] -> what records it
  size_t num_instructions_ = 0;
};

}  // namespace piper::timeline
