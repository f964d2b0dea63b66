// Which file a program's name stands for.
#pragma once

#include <string>

#include "schemas/base/status.h"

namespace piper::launcher {

// A name with a slash is a path; any other is looked for in PATH, then beside piper-launch itself. L0102: there is
// none.
Result<std::string> find_program(const std::string& name);
// A program in the folder of this one. L0102.
Result<std::string> find_beside(const std::string& name);

}  // namespace piper::launcher
