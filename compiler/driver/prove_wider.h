// A second look at plans whose pieces have one sample: rule 12 then often cannot tell which axis counts the samples,
// and leaves open what it would refuse, or prove, with two.
#pragma once

#include <optional>

#include "compiler/driver/compilation.h"

namespace piper::driver {

// What was asked for, before passes change it.
struct AskedStep {
  strategy::Strategy strategy;
  std::optional<strategy::ScheduleTable> table;
};

// Compiles the same step with twice the samples and proves it, if pieces have one sample. Whether all of it is proved;
// false also where it does not compile. What is refuted there is refuted here: a bug of the compiler, which throws.
bool proves_wider(const Compilation& c, AskedStep asked, const diag::Diagnostics& diags);

}  // namespace piper::driver
