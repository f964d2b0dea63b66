// One instruction of a rank's plan, bound to memory, events and communication at load: what a step
// executes. A subclass per instruction kind, each in its own file (run.cc, send.cc, ...); the loader
// makes them through prepare.h, the executor walks them. Nothing is looked up or allocated here.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/hal/stop.h"
#include "schemas/base/status.h"

namespace piper::exec {

// The values that change from step to step.
struct StepContext {
  int64_t step = 0;                // from 1
  bool capture_gradients = false;  // updates keep a copy of their gradient first
  hal::WaitControl wait;
};

class PreparedInstruction {
 public:
  virtual ~PreparedInstruction() = default;
  // R03xx communication, R0403 a kernel failed, R0406 experts are over their capacity; hal::stopped() after a failure
  // elsewhere.
  virtual Status execute(const StepContext& context) = 0;
};

}  // namespace piper::exec
