// The place in the user's program that an exporter's stack trace names. Used by the readers of ONNX files and of `.pt2`
// archives, for diagnostics. It reads no file and cannot fail.
#pragma once

#include <string>
#include <string_view>

namespace piper::frontend {

// "gpt2.py:680": base name and line of the innermost Python frame outside the torch package (else
// of the innermost frame); "" where the trace has no frame.
std::string python_line(std::string_view stack_trace);

}  // namespace piper::frontend
