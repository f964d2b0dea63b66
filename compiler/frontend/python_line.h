// The place in the user's program that an exporter's stack trace names.
#pragma once

#include <string>
#include <string_view>

namespace piper::frontend {

// "gpt2.py:680": base name and line of the innermost Python frame outside the torch package (else
// of the innermost frame); "" where the trace has no frame.
std::string python_line(std::string_view stack_trace);

}  // namespace piper::frontend
