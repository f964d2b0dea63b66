// The numbers of a node and its jobs as Prometheus reads them (text format 0.0.4). Series of jobs that run alone, with
// labels job, rank and state: their number is bounded by the slots.
#pragma once

#include <string>

#include "launcher/daemon/daemon.h"

namespace piper::launcher {

std::string metrics_text(const Daemon& daemon);

}  // namespace piper::launcher
