// A plan with cut tensors, written by hand: no compiler is needed to prove it, or to damage it.
#pragma once

#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::hand_written {

// y = relu((x w0) w1' + b1) w2' + b2, loss = sum of y . t: w1, b1 and w2 are cut over `places` ranks that share
// samples, w1 and b1 by rows (a column-cut product), w2 by columns (a row-cut product). Rank r is place r % places of
// replica r / places, two samples each. Gradients are clipped and summed over replicas.
struct CutPlan {
  int32_t replicas = 1, places = 2;
  // What adds shares up: of the result of the row-cut product, and of the gradient of the column-cut product's input.
  enum class Sum {
    kInPlace,    // right where the share was made
    kByProgram,  // a program of a chunk hands the share on first
    kByCopy,     // a program of the step copies it first
  };
  Sum sum = Sum::kByProgram;
  bool bias_inside = false;  // the row-cut product adds its bias on every place
  bool reference = true;     // the model's own step is there to compare with
};
plan::Bundle cut(const CutPlan& how);

// The communicators of a rank in a CutPlan.
enum CutCommunicator : int32_t { kRow, kColumn, kEveryRank };

}  // namespace piper::hand_written
