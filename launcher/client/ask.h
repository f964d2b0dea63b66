// A request to piperd and its answer, over the socket in its state folder. launcher/daemon/requests.h lists them.
#pragma once

#include <string>

#include "schemas/base/status.h"

namespace piper::launcher {

// One line each, without its end. L0131: no daemon answers there.
Result<std::string> ask_daemon(const std::string& state_folder, const std::string& request);

}  // namespace piper::launcher
