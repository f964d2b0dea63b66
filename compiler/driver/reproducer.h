// A bug of a pass as a file: the module before the pass as text, after comments that hold the strategy and name
// the model, so that `piper-opt FILE --passes PASS` repeats the bug without anything else of the compilation.
#pragma once

#include <string>
#include <vector>

#include "compiler/driver/compile.h"

namespace piper::driver {

// Compiles once more up to the pass, since the pass may have changed the module before it failed, and writes the file
// CompileOptions::reproducer. Returns a line for the user: the file and how to repeat the failure, or why there is
// none.
std::string write_reproducer(const CompileOptions& options, const std::string& pass);

// What a reproducer holds beside the module, for piper-opt; comments of other kinds mean nothing.
struct ReproducerHeader {
  std::string strategy;                // its lines where they are in the file; "" where there is none
  std::vector<std::string> overrides;  // KEY=VALUE on it
  std::string model;                   // path of the model; "" where there is none
};
ReproducerHeader read_reproducer_header(const std::string& text);

}  // namespace piper::driver
