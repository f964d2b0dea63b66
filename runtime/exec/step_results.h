// What a step gives to the host: loss, norm of the gradients, dropped rows, where the rank has them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/exec/load_rank.h"

namespace piper::exec {

class StepResults {
 public:
  // `rank` outlives it.
  static Result<StepResults> bind(const LoadedRank& rank);

  struct Values {
    float loss = 0;                   // 0 where the rank has none
    std::optional<float> grad_norm;   // before clipping
    std::vector<float> grad_squares;  // of which tensors are how much (plan.h); empty: the plan reports none
    std::optional<int64_t> dropped;   // rows that experts had no place for
    std::optional<float> loss_scale;  // for the next step
    std::optional<bool> overflow;     // gradients that are no numbers: the step updated nothing
  };
  // For the last step that was submitted; waits for it.
  Result<Values> read();

 private:
  StepResults() = default;

  std::unique_ptr<hal::Download> loss_, grad_norm_, grad_squares_, dropped_, loss_scale_,
      overflow_;  // nullptr: not on this rank
  size_t num_squares_ = 0;
};

// R0801: the loss or the norm of the gradients is no finite number. A step that left its update out, because scaled
// gradients overflowed, is none of these.
Status check_finite(const StepResults::Values& values, int64_t step);

}  // namespace piper::exec
