// Times of kernel calls that a machine was measured to take (`piper-run --calibrate`): they stand for what a roofline
// would say of these calls.
#pragma once

#include <map>
#include <string>

#include "schemas/base/status.h"

namespace piper::plan {

using KernelTimes = std::map<std::string, double>;  // call_key -> microseconds

// For ranks that measured the same call the mean, by how often they did. An error says the line that does not fit.
Result<KernelTimes> read_kernel_times(const std::string& path);

}  // namespace piper::plan
