// What piperd answers to "status", as a person reads it.
#pragma once

#include <string>

namespace piper::launcher {

// A table of the jobs; of an answer about one job, what is known of it, and its ranks. Throws std::exception where the
// answer is none of piperd.
std::string status_text(const std::string& answer);

}  // namespace piper::launcher
