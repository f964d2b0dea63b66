// What of a run's options all of its ranks must have been given alike, as text that they compare before the first step.
#pragma once

#include <string>

#include "runtime/exec/session/session.h"

namespace piper::exec {

std::string agreed_options(const Session& session);

}  // namespace piper::exec
