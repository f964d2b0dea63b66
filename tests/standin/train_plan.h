// Trains plans written by hand (tests/unit/hand_written_plans.h), with their data and weights, in a folder of their
// own.
#pragma once

#include <functional>
#include <string>

#include "tests/standin/train.h"

namespace piper::standin {

// What a training says, and the files that it saves; empty where there is none.
struct PlanTrained {
  Status status;
  std::string weights, gradients;

  // Code and words; empty where it trained.
  std::string failure() const { return status.ok() ? "" : status.error().code + " " + status.error().message; }
};

struct PlanOptions {
  int64_t steps = 3;
  bool gradients = false;  // those of the first step are saved
};
// `how` gets what there is to train, and trains it.
PlanTrained train_plan(const plan::Bundle& bundle, const std::function<Status(Training)>& how,
                       const PlanOptions& options = {});

}  // namespace piper::standin
