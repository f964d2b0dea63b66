// The machine that a command prices a bundle for: --target and --kernel-times.
#pragma once

#include <string>

#include "schemas/base/status.h"
#include "schemas/plan/kernel_times.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/machine.h"

namespace piper::tools {

struct TargetMachine {
  timeline::Machine machine;
  plan::KernelTimes kernel_times;  // none where no file is given
};
// `kernel_times`: a file, or "". Prints the machine's diagnostics to standard error; one of another device than the
// bundle's is refused (P0250).
Result<TargetMachine> read_target(const std::string& machine, const std::string& kernel_times,
                                  const plan::Bundle& bundle);

}  // namespace piper::tools
