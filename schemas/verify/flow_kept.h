// What a step must leave for the next, and for those who save or evaluate: all that is trained updated once,
// everywhere. Internal to the verifier.
#pragma once

#include "schemas/verify/flow.h"

namespace piper::verify {

// After the last instruction of all ranks.
class Flow::Kept {
 public:
  explicit Kept(Flow& flow) : flow_(flow) {}

  Status check_loss_scales() const;
  Status check_next_step(const Rank& rank) const;
  Status check_counters(const Rank& rank) const;
  Status check_statistics() const;
  Status check_all_trained() const;
  Status check_owners() const;

 private:
  Status check_placed(const Rank& rank, const plan::Placement& placement, int32_t tensor, bool updated) const;
  static int32_t samples_taken(const Rank& rank, int32_t tensor);

  Flow& flow_;
};

}  // namespace piper::verify
