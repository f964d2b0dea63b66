// A file of lines that every rank has some of.
#pragma once

#include <string>

#include "runtime/exec/session/session.h"
#include "runtime/hal/control_channel.h"

namespace piper::exec {

// Collective: the reporting rank writes the lines of one rank after the other. R0601.
Status write_lines_of_all_ranks(const Session& session, hal::ControlChannel& control, const hal::WaitControl& wait,
                                const std::string& path, const std::string& lines);

}  // namespace piper::exec
