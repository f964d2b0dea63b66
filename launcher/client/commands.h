// piper-launch submit, status, logs, cancel and drain: what a user asks piperd.
#pragma once

#include <string>

namespace piper::launcher {

// Whether it is one of these words.
bool is_command(const std::string& word);

// The whole command line, argv[1] being the command. Prints, and returns the exit status: 0, 1 refused, 2 command line.
int run_command(int argc, const char* const* argv);

}  // namespace piper::launcher
