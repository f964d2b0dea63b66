// Which variables of whoever submits a job its ranks begin with: what programs need to run, and what steers piper and
// the libraries that it uses. Others may hold what is nobody's business, and are passed on by name only.
#pragma once

#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::launcher {

bool is_passed(const std::string& name);

// "NAME=value" of each variable of this process that is passed on, or is in `more`. L0101: one of `more` is not set.
Result<std::vector<std::string>> passed_environment(const std::vector<std::string>& more);

}  // namespace piper::launcher
