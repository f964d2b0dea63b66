// An exit status in words: "status 137 (SIGKILL)".
#pragma once

#include <string>

namespace piper::launcher {

std::string exit_text(int exit_status);

}  // namespace piper::launcher
