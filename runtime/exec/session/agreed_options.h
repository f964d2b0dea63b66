// What of a run's options all of its ranks must have been given alike: they compare it before the first step.
#pragma once

#include <vector>

#include "runtime/bootstrap/agreement.h"
#include "runtime/exec/session/session.h"

namespace piper::exec {

std::vector<bootstrap::AgreedOption> agreed_options(const Session& session);

}  // namespace piper::exec
