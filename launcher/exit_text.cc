#include "launcher/exit_text.h"

#include <cstring>

namespace piper::launcher {

std::string exit_text(int exit_status) {
  const char* const name = exit_status > 128 ? sigabbrev_np(exit_status - 128) : nullptr;
  return "status " + std::to_string(exit_status) + (name == nullptr ? "" : std::string(" (SIG") + name + ")");
}

}  // namespace piper::launcher
