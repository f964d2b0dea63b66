// A TorchScript archive of torch.jit.trace as a `.pt2` archive that piperc reads: the same ATen calls,
// with the module that makes each of them, weights under their names in the state dict, and inputs of
// the shapes that the caller gives (a trace keeps none). Used by the program piper-torchscript, the
// only one of piper's tools that links LibTorch beside piper-run.
//
// A trace knows nothing of torch.no_grad and of custom backward functions: both are lost when it is
// made. Control flow of torch.jit.script is refused.
#pragma once

#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::torchscript {

struct InputSpec {
  std::string name;               // as strategies and data name it
  std::string dtype;              // "float32", "int64", ...
  std::vector<std::string> dims;  // "16", or the name of a symbol: "B"
};

// "input_ids:int64[B,16]". A failure says what is wrong with the text.
Result<InputSpec> parse_input(const std::string& text);

struct Converted {
  size_t calls = 0, parameters = 0;
};
// Reads `from`, writes `to`. `inputs`: one for each argument of forward, in its order. Failures name
// the operator, the module and the Python line.
Result<Converted> convert(const std::string& from, const std::string& to, const std::vector<InputSpec>& inputs);

}  // namespace piper::torchscript
