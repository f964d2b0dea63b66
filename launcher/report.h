// How an attempt ended, as a file that piper-launch leaves for whoever started it.
#pragma once

#include <optional>
#include <string>

#include "launcher/supervisor.h"

namespace piper::launcher {

// No file where `path` is empty. One that cannot be written is reported on standard error and is no failure.
void write_report(const std::string& path, const Outcome& outcome);

// Nothing where there is none: its piper-launch was killed.
std::optional<Outcome> read_report(const std::string& path);

}  // namespace piper::launcher
