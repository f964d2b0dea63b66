// How long the passes of a plan take, and its messages: what list scheduling needs to know. Read off a timeline, so
// they are whatever that was priced by.
#pragma once

#include <string>
#include <vector>

#include "compiler/strategy/families.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/timeline.h"

namespace piper::tune {

// The stages that a rank runs passes of, by this tag, in ascending order.
std::vector<int32_t> stages_of(const plan::Bundle& bundle, const plan::RankPlan& rank, const std::string& tag);

// Means over microbatches and ranks, in the timeline's unit.
struct PassTime {
  double compute = 0;   // its runs
  double exchange = 0;  // in which it waits for communication of its own, where no other pass fills that time
  double alone() const { return compute + exchange; }
};
class PassTimes {
 public:
  // `tag`: that numbers the stages; "": all chunks are of stage 0. Stages that have no passes of their own cost
  // nothing.
  PassTimes(const plan::Bundle& bundle, const timeline::Timeline& timeline, const std::string& tag, int32_t stages);

  // A whole backward that the plan has in halves is their sum, a half that it has not is half of the whole.
  PassTime of(int32_t stage, strategy::Pass pass) const;
  double message() const { return message_; }  // between two stages on different ranks, the mean

 private:
  std::vector<std::vector<PassTime>> times_;  // [stage][pass]
  double message_ = 0;
};

}  // namespace piper::tune
